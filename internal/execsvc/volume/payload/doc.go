// Package payload says what files a configMap, secret, downwardAPI or projected volume has: each file's path, data, mode and owner,
// as the kubelet would write them.
//
// Package volume asks at each sync of a pod, and has package atomicdir write the answer. The functions are pure: they read no file and
// keep nothing. Only a service account's token is asked of somebody else, through Tokens.
//
// What has to be waited for is an error, as is what can't be used: a volume has all its files or isn't set up. No error has a value of a
// ConfigMap or Secret in it.
package payload
