// Package image sees to it that a container's image is on the node before the container is created.
//
// Package runtime asks for images with Ensure, which never waits for a pull: it says that the image is there, or what it waits for.
// When a pull has ended, the pod is woken. Pods that want one image with the same credentials share one pull; pulls wait their turn in
// the order in which they were asked for. The rules, the reasons and the events are the kubelet's (pkg/kubelet/images).
//
// A Puller runs a goroutine for each image whose credentials are looked for and for each pull under way; Close waits for them. Its lock
// is never held during a call. It keeps nothing over a restart, removes no images, and doesn't know where credentials come from.
package image
