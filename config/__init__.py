"""What the operator decides: identities, providers, profiles, tokens."""
