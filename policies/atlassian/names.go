package atlassian

import "github.com/headway-go/headway/policies/fields"

// names are the names of resources in the paths of Jira Cloud's API, after its version.
//
// Sources: https://developer.atlassian.com/cloud/jira/platform/swagger-v3.v3.json and
// https://developer.atlassian.com/cloud/jira/software/swagger.v3.json
var names = fields.NamesOf(listed) //nolint:gochecknoglobals // a constant table

const listed = `
	0.1 0.10 1.0 accessible actors addToDefault addons advanced-settings agile alternatives analyse announcementBanner api app
	application-properties applicationrole archive assignable assignee attachment attachments auditing autocompletedata availableFields
	avatar avatar2 avatars backlog board builds bulk bulkByProperties cancel changelog check columns comment component components config
	configuration content context contexts copy createdraft createmeta customFieldOption dashboard default defaultShareScope defaultValue
	delete deleted deployments devinfo draft dynamic edit editmeta email environments epic estimation eval events existsByProperties
	expand expression failed favourite featureflags features field fieldconfiguration fieldconfigurationscheme fields filter flag full
	gadget gadgets gating-status group groups groupuserpicker hierarchy human instance issue issueLink issueLinkType
	issuesecuritylevelscheme issuesecurityschemes issuetype issuetypemapping issuetypescheme issuetypescreenscheme items jql key label
	license list locale mapping match member members mergeto meta migration module move multi multiProjectSearch my mypermissions
	mypreferences myself none notificationscheme notify option options owner parse pdcleaner permission permissions permissionscheme
	picker pipelines priority project projectCategory projectmapping projectvalidate properties publish query quickfilter rank raw recent
	record refresh relatedIssueCounts remotelink remotelinks remove removeAndSwap reports repository resolution rest restore role
	roledetails rule sanitize screens screenscheme search securitylevel serverInfo settings sprint status statuscategory statuses
	suggestions swap system tabs task thumbnail timetracking transitions trash trashed type uiModifications universal_avatar
	unresolvedIssueCount updated user users validProjectKey validProjectName value version versions view viewissue votes watchers watching
	webhook workflow workflowscheme worklog
`
