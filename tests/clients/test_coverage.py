"""Which method of the clients covers each operation of an app's programs; a new route fails until somebody decides."""

import re
from pathlib import Path

from pilotis.http.api.openapi import operation_id
from pilotis.http.reference.sdk import client_versions
from pilotis.server import endpoint_table

METHODS = {
    "signUpMember": "Members.signUp",
    "signInMember": "Members.signIn",
    "createGuest": "Members.guest",
    "getCurrentMember": "Members.me",
    "updateCurrentMember": "Members.update",
    "deleteCurrentMember": "Members.deleteAccount",
    "getOwnAccount": "Members.account",
    "updateOwnPassword": "Members.setPassword",
    "updateCustomData": "Members.setCustomData",
    "signOutMember": "Members.signOut",
    "refreshTokens": "Members.session",
    "verifyOwnEmail": "Members.setEmail",
    "completeEmailVerification": "Members.confirmEmail",
    "createPasswordReset": "Members.requestPasswordReset",
    "resetPassword": "Members.resetPassword",
    "getPublicAuthSettings": "Client.authSettings",
    "getStats": "Client.stats",
    "listTables": "Client.tables",
    "getTable": "Client.table",
    "listRows": "Rows.all",
    "queryRows": "Rows.where",
    "getRow": "Rows.get",
    "createRow": "Rows.create",
    "createRows": "Rows.createMany",
    "upsertRow": "Rows.upsert",
    "updateRow": "Rows.update",
    "deleteRow": "Rows.delete",
    "updateRows": "Query.update",
    "deleteRows": "Query.delete",
    "getRowByKey": "Rows.by",
    "updateRowByKey": "Rows.by",
    "deleteRowByKey": "Rows.by",
    "aggregateRows": "Rows.aggregate",
    "searchRows": "Rows.search",
    "autocompleteValues": "Rows.autocomplete",
    "searchRowsByLocation": "Rows.geo",
    "runBatch": "Client.batch",
    "runTransaction": "Client.transaction",
    "callView": "Client.view",
    "createUpload": "Files.upload",
    "createUploadAtPath": "Files.upload",
    "completeUpload": "Files.upload",
    "uploadFile": "Files.upload",
    "createResumableUpload": "Files.upload",
    "getResumableUpload": "Files.upload",
    "updateResumableUpload": "Files.upload",
    "listFiles": "Files.list",
    "createFolder": "Files.createFolder",
    "deleteFile": "Files.delete",
    "getFileAtPath": "Files.get",
    "createSignedUrl": "Files.signedUrl",
    "downloadFile": "Files.read",
    "downloadFileAtPath": "Files.read",
    "invokeFunction": "Client.functions",
    "createLiveStream": "Query.live",
    "publishMessage": "Channel.send",
    "updatePresence": "Channel.enter",
    "deletePresence": "Channel.leave",
}
WITHOUT = {
    "for developers' programs, by `request`": {
        "createTable",
        "updateTable",
        "deleteTable",
        "listColumns",
        "createColumn",
        "updateColumn",
        "deleteColumn",
        "publishEvent",
        "getEventCatalog",
    },
    "for deployments, which `pilotis deploy` does": {
        "listWebStorages",
        "createWebStorage",
        "deploySite",
        "getManifest",
        "deployChanges",
        "createContentUpload",
        "listDeployments",
        "promoteDeployment",
        "replacePageMeta",
        "listPageMetas",
        "deletePageMeta",
        "createPageMetas",
        "getPageMeta",
        "deletePageMetas",
        "uploadContent",
    },
    "for the account pages, or by `request`": {
        "acceptTeamInvitation",
        "completeEmailSignIn",
        "completePasskeySignIn",
        "completeSecondFactor",
        "completeTotp",
        "createEmailSignIn",
        "createOwnTeam",
        "createPasskey",
        "createPasskeyChallenge",
        "createPasskeySignIn",
        "createRecoveryCodes",
        "createSecondFactor",
        "createTeamInvitation",
        "createTotp",
        "deleteMemberOwnSession",
        "deleteOtherSessions",
        "deleteOwnEmail",
        "deleteOwnTeam",
        "deleteOwnTeamMember",
        "deletePasskey",
        "deleteTeamInvitation",
        "deleteTotp",
        "getOwnFactors",
        "getOwnTeam",
        "getPublicAccountSettings",
        "getTeamInvitation",
        "listMemberOwnSessions",
        "listOwnTeamMembers",
        "listOwnTeams",
        "listTeamInvitations",
        "replaceOwnPassword",
        "restoreEmail",
        "updateOwnTeam",
        "updateOwnTeamMember",
        "updatePasskey",
        "verifyOwnSession",
    },
    "for the pages of the server": {
        "verifyEmail",
        "denyEmail",
        "getLoginOptions",
        "getConsentInfo",
        "approveConsent",
        "denyConsent",
        "downloadClientLogo",
    },
    "for OAuth libraries, or by `request`": {
        "listConnections",
        "deleteConnection",
        "getAuthorizationServerMetadata",
        "getOpenidConfiguration",
        "getSigningKeys",
        "getProtectedResource",
        "getMcpResource",
        "getSocialLoginUrl",
        "exchangeSocialLoginCode",
    },
    "for other programs": {
        "checkDomain",
        "callTrigger",
        "callTriggerByPut",
        "callTriggerByGet",
        "getLiveness",
        "getProxyHeaders",
        "getReadiness",
        "exportByLink",
        "signOutUser",
        "signOutUserByGet",
    },
    "the client has another way": {
        "getViewResult",
        "deleteResumableUpload",
        "getResumableUploadOptions",
        "getResumableUploadOptionsOfUpload",
    },
}


def test_each_operation_has_a_method_or_a_reason():
    operations = {
        operation_id(endpoint) for endpoint in endpoint_table() if endpoint.tag != "Pages" and not endpoint.is_console
    }
    decided = [*METHODS, *(name for names in WITHOUT.values() for name in names)]
    assert len(decided) == len(set(decided))
    assert operations == set(decided)


def test_the_methods_exist():
    folder = Path(__file__).parents[2] / "src" / "pilotis" / "http" / "reference" / "client"
    declared = (folder / client_versions()[0] / "pilotis.d.ts").read_text()
    interfaces = dict(re.findall(r"^export interface (\w+).*?\{\n(.*?)^\}", declared, re.MULTILINE | re.DOTALL))
    for operation, method in METHODS.items():
        interface, _, name = method.partition(".")
        assert re.search(rf"^  (?:readonly )?{name}\b[(<:]", interfaces[interface], re.MULTILINE), (operation, method)
