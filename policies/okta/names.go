package okta

import "github.com/headway-go/headway/policies/fields"

// names are the names of resources in the paths of Okta's API.
//
// Sources: https://github.com/okta/okta-sdk-golang (.generator, the OpenAPI file of the management API) and
// https://developer.okta.com/docs/api/openapi/okta-oauth/guides/overview/
var names = fields.NamesOf(listed) //nolint:gochecknoglobals // a constant table

const listed = `
	.well-known aaguids actions actions-provider activate active admin-notifications aerial agentPools api api-service api-services
	api-tokens app appLinks apps assignees associatedServers attack-protection auth-settings authenticator-enrollments
	authenticator-settings authenticators authorizationServers authorize autoAssignAdminAppSetting available-actions background-image bc
	behaviors bindings blocks bot-protection bounces brands bulk-delete bulk-group-memberships-delete bulk-group-memberships-upsert
	bulk-groups-delete bulk-groups-upsert bulk-upsert bundles callback capabilities captcha captchas cases catalog certificate challenge
	change_password change_recovery_question claim claims classification clientPrivilegesSetting clients clone configuration connections
	contacts containers credentials csrs current customizations customized cwo deactivate default default-content dependencies dependents
	device device-assurances device-integrations device-posture-checks devices directories domains dr edit-feature email email-domains
	email-servers enroll enrollments entitlements error eventHooks execute expire_password expire_password_with_temp_password
	export-blocklists express-configure extend factors failback failover favicon features federated-claims first-party-app-settings
	forgot_password forgot_password_recovery_question generate google governance grant grants group group-push groups hideEndUserFooter
	hook-keys iam identity-sources idps initiate-fulfillment-request inlineHooks integration-capabilities integrations interact
	interclient-allowed-apps interclient-target-apps introspect jwks keyRotate keys layouts lifecycle linkedObjects logStream logStreams
	logo logout logs mappings mark-error members membership meta metadata methods modify oauth2 office365 okta-personal-settings
	okta-service-accounts oktaCommunication oktaSupport oob-authenticate operations optIn optOut org orgSettings orgs os-accounts owners
	pages par pause per-client permissions phone policies preferences prepare-resources preview principal-rate-limits privacy
	privileged-access protocols public publish push-providers query questions rate-limit-settings reactivate realm-assignments realms
	refresh remove-list resend reset_factors reset_password resource-filter-criteria resource-sets resources resourceservercredentials
	resume retry revoke risk roles rotate-password rules saml schemas scopes secrets sections security security-events
	security-events-providers send-pin service-accounts sessions setAsPrimary settings showEndUserFooter sign-in sign-out simulate sms ssf
	sso start-import status stop stream submissions submit subscribe subscriptions suspend tac targets telephony-providers templates
	tenant-settings test testing themes thirdPartyAdminSetting threats token tokens transactions trustedOrigins types uischemas
	unconfirmed-users unlock unsubscribe unsuspend updates user user-lockout-settings userinfo users v1 validate-actions values
	verification verify verify-rp-id-domain warning-threshold webauthn-registration well-known-uris widget-versions yubikey_token zones
`
