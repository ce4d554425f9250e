// Package image pulls a container's image before the container is created.
//
// Package runtime requests images with Ensure, which never waits for a pull: it returns the image, or the reason why it
// isn't there. When a pull has ended, the pod is woken. Pods that need one image with the same credentials share one
// pull. A few requests of each pod are under way at a time, the others are held; and the pods take turns, so that the
// images of one pod don't delay another's. A pod waits a moment for pull secrets that haven't arrived. The rules, the
// reasons and the events are the kubelet's (pkg/kubelet/images).
//
// A Puller runs a goroutine for each image whose credentials are looked up, for each running pull, for the timer of the
// rate limit, and one that reads how far the pulls are while any runs; Close waits for them. Its lock is never held
// during a call. It stores nothing over a restart, removes no images, and doesn't depend on the sources of credentials.
package image
