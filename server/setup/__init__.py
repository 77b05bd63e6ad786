"""A first configuration, from an address to an entry for an MCP client: what `postmirror init` does.

finding     where the mail servers of an address are
dns         what DNS says of a domain
account     what was settled on, and the TOML that says it
secret      where the password is kept
looking     the folders of the mailbox, and how long a first sync takes
writing     the configuration file, never half and never over another
entry       what a client is told
"""
