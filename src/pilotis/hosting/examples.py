"""Examples of web hosting for the reference."""

from __future__ import annotations

from typing import Any

from pilotis.http.api.example import Example

_AT = "2026-01-31T09:30:00.000Z"
_APP = "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385"
_STORAGE = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"
_DEPLOYMENT = "0199c0de-5a7e-7c1d-9f24-81d3a2b6c4e5"
_OTHER = "0199c0de-41b2-7d0e-8a13-f5e6c7d8b9a0"
_KEY = "0199c0de-77aa-7bcd-9e10-a1b2c3d4e5f6"
_MENU = "81d365c661037f3e1ac8a83ee60bc0ee90f7f2158af219b9f9ef048e7d43ad20"
_SITE = "cafe-guide-k3x9ab"
_PATH = {"storage_id": "$WEB_STORAGE_ID"}
_PUBLIC = "/v1/public/storages/webs"
_ONE = f"{_PUBLIC}/:storage_id"
_CONSOLE = "/v1/apps/:app_id/storages/webs"
_CONSOLE_ONE = f"{_CONSOLE}/:storage_id"


def _storage(**changes: Any) -> dict[str, Any]:
    return {
        "id": _STORAGE,
        "app_id": _APP,
        "name": "Cafe guide",
        "description": "",
        "slug": _SITE,
        "promote_mode": "auto",
        "not_found_mode": "auto",
        "clean_urls": True,
        "retain": 20,
        "has_qa_password": False,
        "url": f"http://{_SITE}.localhost:8090",
        "qa_url": f"http://{_SITE}--qa.localhost:8090",
        "production_deployment_id": None,
        "qa_deployment_id": None,
        "file_count": 0,
        "total_size": 0,
        "created_at": _AT,
        "updated_at": _AT,
        **changes,
    }


def _deployment(**changes: Any) -> dict[str, Any]:
    return {
        "id": _DEPLOYMENT,
        "storage_id": _STORAGE,
        "version": 1,
        "status": "ready",
        "source": "console",
        "target": "production",
        "base_deployment_id": None,
        "file_count": 1,
        "total_size": 26,
        "uploaded_size": 26,
        "changes": {"added": 1, "changed": 0, "removed": 0},
        "manifest_hash": "…",
        "message": None,
        "url": f"http://{_SITE}--v1.localhost:8090",
        "is_production": True,
        "is_qa": False,
        "warnings": [],
        "error": None,
        "created_by": {"kind": "console_user", "id": _KEY},
        "created_at": _AT,
        "ready_at": _AT,
        **changes,
    }


_BY_KEY = {"source": "zip", "created_by": {"kind": "secret_key", "id": _KEY}}


def _deployed(**changes: Any) -> dict[str, Any]:
    return {
        "deployment": _deployment(**changes),
        "production_deployment_id": _DEPLOYMENT,
        "qa_deployment_id": None,
        "unchanged": False,
    }


_MISSING = {
    "deployment": None,
    "missing": [
        {
            "path": "menu.txt",
            "hash": _MENU,
            "size": 11,
            "upload_url": f"http://127.0.0.1:8090/v1/uploads/sites/{_APP}?hash={_MENU}&size=11&…",
            "method": "PUT",
            "headers": {"Content-Type": "application/octet-stream"},
            "expires_at": _AT,
        }
    ],
    "missing_count": 1,
    "unchanged": False,
    "production_deployment_id": None,
    "qa_deployment_id": None,
}
_DELTA = {"upserts": [{"path": "menu.txt", "hash": _MENU, "size": 11}], "deletes": ["index.html"]}
_MANIFEST = {
    "storage_id": _STORAGE,
    "deployment_id": _DEPLOYMENT,
    "version": 1,
    "algorithm": "sha256",
    "manifest_hash": "…",
    "file_count": 1,
    "total_size": 26,
    "files": [{"path": "index.html", "hash": "…", "size": 26, "content_type": "text/html; charset=utf-8"}],
}
_UPLOADS = {
    "uploads": [
        {
            "hash": _MENU,
            "size": 11,
            "exists": False,
            "upload_url": f"http://127.0.0.1:8090/v1/uploads/sites/{_APP}?hash={_MENU}&size=11&…",
            "method": "PUT",
            "headers": {"Content-Type": "application/octet-stream"},
            "expires_at": _AT,
        }
    ]
}
_DEPLOYMENTS = {
    "deployments": [_deployment()],
    "total_count": 1,
    "limit": 20,
    "offset": 0,
    "production_deployment_id": _DEPLOYMENT,
    "qa_deployment_id": None,
}
_ROLLBACK = {
    "production_deployment_id": _DEPLOYMENT,
    "previous_deployment_id": _OTHER,
    "kind": "rollback",
    "deployment": _deployment(),
}


def _page(**changes: Any) -> dict[str, Any]:
    return {
        "path": "/cafes/blue-door",
        "title": "Blue Door",
        "description": "Espresso by the sea",
        "image": None,
        "og_type": None,
        "keywords": None,
        "canonical_url": None,
        "robots": None,
        "twitter_card": None,
        "site_name": None,
        "locale": None,
        "json_ld": None,
        "include_in_sitemap": None,
        "sitemap_priority": None,
        "created_at": _AT,
        "updated_at": _AT,
        **changes,
    }


_DOMAIN = {
    "hostname": "www.cafes.example",
    "is_verified": False,
    "txt_name": "_pilotis-challenge.www.cafes.example",
    "txt_value": "pilotis-site-verification=…",
    "created_at": _AT,
    "verified_at": None,
}

EXAMPLES = [
    Example(
        route=f"GET {_PUBLIC}",
        operation="listWebStorages",
        answer={"storages": [_storage()], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"POST {_PUBLIC}",
        operation="createWebStorage",
        body={"name": "Cafe guide", "description": "Where to have an espresso"},
        answer=_storage(description="Where to have an espresso"),
    ),
    Example(
        route=f"POST {_ONE}/deploy", operation="deploySite", path=_PATH, file="site.zip", answer=_deployed(**_BY_KEY)
    ),
    Example(route=f"GET {_ONE}/deploy/manifest", operation="getManifest", path=_PATH, answer=_MANIFEST),
    Example(
        route=f"POST {_ONE}/deploy/incremental",
        operation="deployChanges",
        path=_PATH,
        body=_DELTA,
        answer=_MISSING,
    ),
    Example(
        route=f"POST {_ONE}/deploy/presign",
        operation="createContentUpload",
        path=_PATH,
        body={"path": "menu.txt", "hash": _MENU, "size": 11},
        answer=_UPLOADS,
    ),
    Example(route=f"GET {_ONE}/deployments", operation="listDeployments", path=_PATH, answer=_DEPLOYMENTS),
    Example(
        route=f"POST {_ONE}/promote",
        operation="promoteDeployment",
        path=_PATH,
        body={"deployment_id": "$EARLIER_DEPLOYMENT_ID"},
        answer=_ROLLBACK,
    ),
    Example(
        route=f"PUT {_ONE}/page-metas",
        operation="replacePageMeta",
        path=_PATH,
        body={"path": "/cafes/blue-door", "title": "Blue Door", "description": "Espresso by the sea"},
        answer=_page(),
    ),
    Example(
        route=f"POST {_ONE}/page-metas/batch",
        operation="createPageMetas",
        path=_PATH,
        body={"pages": [{"path": "/cafes/blue-door", "title": "Blue Door", "image": "/blue-door.jpg"}]},
        answer={
            "pages": [_page(description=None, image="/blue-door.jpg")],
            "total": 1,
            "success": 1,
        },
    ),
    Example(
        route=f"GET {_ONE}/page-metas",
        operation="listPageMetas",
        path=_PATH,
        answer={"pages": [_page()], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"GET {_ONE}/page-metas/get",
        operation="getPageMeta",
        path=_PATH,
        query={"path": "/cafes/blue-door"},
        answer=_page(),
    ),
    Example(
        route=f"DELETE {_ONE}/page-metas",
        operation="deletePageMeta",
        path=_PATH,
        query={"path": "/cafes/blue-door"},
        answer={"message": "Metadata deleted.", "path": "/cafes/blue-door"},
    ),
    Example(
        route=f"DELETE {_ONE}/page-metas/all",
        operation="deletePageMetas",
        path=_PATH,
        answer={"message": "Metadata deleted.", "deleted_count": 1},
    ),
    Example(
        route=f"GET {_CONSOLE}",
        operation="listAppWebStorages",
        answer={"storages": [_storage()], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"POST {_CONSOLE}",
        operation="createAppWebStorage",
        body={"name": "Cafe guide", "promote_mode": "manual"},
        answer=_storage(promote_mode="manual"),
    ),
    Example(route=f"GET {_CONSOLE_ONE}", operation="getWebStorage", path=_PATH, answer=_storage()),
    Example(
        route=f"PATCH {_CONSOLE_ONE}",
        operation="updateWebStorage",
        path=_PATH,
        body={"not_found_mode": "spa", "qa_password": "let me in"},
        answer=_storage(not_found_mode="spa", has_qa_password=True),
    ),
    Example(
        route=f"DELETE {_CONSOLE_ONE}",
        operation="deleteWebStorage",
        path=_PATH,
        answer={"message": "Web storage deleted.", "id": _STORAGE},
    ),
    Example(
        route=f"POST {_CONSOLE_ONE}/deploy",
        operation="deployAppSite",
        path=_PATH,
        file="site.zip",
        answer=_deployed(),
    ),
    Example(route=f"GET {_CONSOLE_ONE}/deploy/manifest", operation="getAppManifest", path=_PATH, answer=_MANIFEST),
    Example(
        route=f"POST {_CONSOLE_ONE}/deploy/incremental",
        operation="deployAppChanges",
        path=_PATH,
        body=_DELTA,
        answer=_MISSING,
    ),
    Example(
        route=f"POST {_CONSOLE_ONE}/deploy/presign",
        operation="createAppContentUpload",
        path=_PATH,
        body={"path": "menu.txt", "hash": _MENU, "size": 11},
        answer=_UPLOADS,
    ),
    Example(route=f"GET {_CONSOLE_ONE}/deployments", operation="listAppDeployments", path=_PATH, answer=_DEPLOYMENTS),
    Example(
        route=f"GET {_CONSOLE_ONE}/deployments/:deployment_id",
        operation="getDeployment",
        path=_PATH,
        answer=_deployment(),
    ),
    Example(
        route=f"POST {_CONSOLE_ONE}/promote",
        operation="promoteAppDeployment",
        path=_PATH,
        body={"deployment_id": "$EARLIER_DEPLOYMENT_ID"},
        answer=_ROLLBACK,
    ),
    Example(
        route=f"GET {_CONSOLE_ONE}/domains",
        operation="listDomains",
        path=_PATH,
        answer={"domains": [_DOMAIN], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route=f"POST {_CONSOLE_ONE}/domains",
        operation="createDomain",
        path=_PATH,
        body={"hostname": "www.cafes.example"},
        answer=_DOMAIN,
    ),
    Example(
        route=f"POST {_CONSOLE_ONE}/domains/:hostname/verify",
        operation="verifyDomain",
        path={**_PATH, "hostname": "www.cafes.example"},
        answer={**_DOMAIN, "is_verified": True, "verified_at": _AT},
    ),
    Example(
        route=f"DELETE {_CONSOLE_ONE}/domains/:hostname",
        operation="deleteDomain",
        path={**_PATH, "hostname": "www.cafes.example"},
        answer={"message": "Domain removed.", "name": "www.cafes.example"},
    ),
    Example(
        route="PUT /v1/uploads/sites/:app_id",
        operation="uploadContent",
        url="$CONTENT_UPLOAD_URL",
        content="Espresso 2\n",
        answer={"hash": _MENU, "size": 11},
    ),
    Example(
        route="GET /v1/sites/ask",
        operation="checkDomain",
        query={"domain": "www.cafes.example"},
        answer={"domain": "www.cafes.example"},
    ),
]
