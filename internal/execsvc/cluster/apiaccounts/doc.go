// Package apiaccounts reads service accounts for the credential providers of image pulls.
//
// Package credential requests one when a pod's image is pulled, or its access verified. The API server is asked each
// time, as by the kubelet. While it is away, the account that it returned last is used, so that containers of known
// pods can restart. The accounts are kept in memory only, without what isn't needed, and so many at most. The package
// runs no goroutines, and requests for different accounts don't wait for each other.
package apiaccounts
