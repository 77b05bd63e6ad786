"""`postmirror doctor`: what is wrong with an installation, each fault by a name of its own and with one fix.

    finding       what a check says
    examination   every check, in the order in which one rests on another
    permissions   who may read and write the configuration, the secrets, the key and the data directory
    door          a mail server reached and through TLS; certificate names what is wrong with its certificate
    login, submission, clock, budget, disk, mirror, locks, network, audit, versions   a check each

Checks look and change nothing: no file is made or repaired, no mail is sent, each login is tried once.
"""
