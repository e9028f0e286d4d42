package okta
