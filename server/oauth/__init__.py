"""Signing in by OAuth 2 (RFC 6749, 8252, 8628), and the access tokens that come of it.

endpoint    what is asked of the provider's authorization server; the only import of oauthlib
tokens      what it gives, and why it does not
browser     the browser's way back: to a port of this machine, or pasted
grants      what a sign-in left, sealed in state.db
source      an access token for whoever logs in, renewed when it is due, once for all processes
"""
