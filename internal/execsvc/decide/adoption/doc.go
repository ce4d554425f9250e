// Package adoption decides which pods of a kubelet podexecd takes over, and what then happens to each one.
//
// A Rule selects the sandboxes: package runtime obeys its Directories, with --adopt-kubelet-pods. Plan is for `podctl migrate
// --dry-run`, which runs beside the kubelet: it says of each pod whether it is kept, restarted or removed. It asks package
// actions, as the pod's worker does, so that the plan and podexecd decide alike.
//
// It is pure: functions of values, without calls or state. Files are seen only by a function that the caller gives. Package
// migration reads the node for Plan.
package adoption
