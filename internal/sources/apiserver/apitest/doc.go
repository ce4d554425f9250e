// Package apitest is an API server for tests: it serves pods, ConfigMaps, Secrets, and Nodes and Services by their names,
// over real connections, as far as a client that gets, lists and watches needs it. A test can make it fail as servers and
// networks do.
//
// A test makes a Server with New, changes its objects with Put and Delete, and waits for its clients with Await. Each
// Server runs its listener's goroutine and those of its connections; Close, which New registers as the test's
// cleanup, ends them all. It never writes an object that a client sends, doesn't check the contents of objects, and
// keeps nothing on disk except what Kubeconfig writes.
//
// # Supported protocol
//
//   - JSON and the Kubernetes protobuf encoding, by Accept, for objects, lists, watch frames and errors.
//   - One counter of resourceVersions for all objects; list metadata and bookmarks have it.
//   - get, list and watch of one namespace or all; fieldSelector on metadata.name, metadata.namespace, spec.nodeName
//     (pods) and type (Secrets); labelSelector. An object that begins to match a watch's selectors is ADDED there,
//     one that no longer matches is DELETED.
//   - Lists in pages (limit, continue) of one consistent snapshot, also for resourceVersion=0, as of a server without
//     a watch cache, unless Lag gives it an old one. A continue token from before Compact is 410 Expired.
//   - Watches from a resourceVersion, or with synthetic ADDED events if it is empty or 0; one from before Compact
//     gets an ERROR event, 410 Expired; timeoutSeconds; bookmarks, if allowWatchBookmarks, each time that Bookmark is
//     called.
//   - Streaming lists (sendInitialEvents with resourceVersionMatch=NotOlderThan), ended by the bookmark with the
//     annotation k8s.io/initial-events-end; see WatchList for servers without them.
//   - A resourceVersion of the future is 504 with the cause ResourceVersionTooLarge; a watch of one begins, and has no event
//     until that version. One that isn't a number is 400.
//   - Lists of metadata (as=PartialObjectMetadataList).
//   - /version, as of Kubernetes 1.37 unless SetMinor changes it.
//   - Bearer tokens and client certificates, if Admit lists them; otherwise 401.
//   - HTTP/2 with TLS, HTTP/1.1 without.
//
// It has no discovery, no admission, no RBAC (Answer can return 403), no writes, no subresources, and no other
// resources.
package apitest
