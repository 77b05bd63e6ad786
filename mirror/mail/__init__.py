"""The pieces a mail is made of: fields, parameters, encodings, charsets, the MIME tree. Pure, and never raising."""
