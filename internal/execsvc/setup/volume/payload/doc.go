// Package payload computes the files of a configMap, secret, downwardAPI or projected volume: each file's path, data,
// mode and owner, as the kubelet would write them.
//
// Package volume calls it at each sync of a pod, and package atomicdir writes the result. The functions are pure:
// they read no file and keep nothing. Only tokens come from elsewhere, through Tokens.
//
// A missing object and an invalid item are errors: a volume has all its files or isn't set up. No error contains a
// value of a ConfigMap or Secret.
package payload
