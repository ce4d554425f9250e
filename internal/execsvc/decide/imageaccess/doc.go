// Package imageaccess decides whether a pod may use an image that the node has already, as the kubelet's image pull
// manager does (pkg/kubelet/images/pullmanager): the policy imagePullCredentialsVerificationPolicy, and the record of
// the credentials with which the image was pulled before.
//
// Package image asks through package pullrecord, which has the records and calls Decide and Merge. The package is pure:
// it has no state and no I/O. What isn't known gives no access: if a record can't be read, the pod has to pull.
package imageaccess
