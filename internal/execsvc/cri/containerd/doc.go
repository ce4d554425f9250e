// Package containerd makes the requests to containerd that CRI lacks: it deletes a task, and reads the content store.
//
// A task is containerd's record of a container's first process. containerd creates it in StartContainer, and deletes it
// when the process has ended. If the client of StartContainer is gone just after the task was created, containerd
// reports the container as ended, but keeps the task, with the process "runc init" that waits for the start. From then
// on RemoveContainer and RemovePodSandbox fail with FailedPrecondition, and StopContainer and StopPodSandbox leave the
// task (containerd issue 11037).
//
// The content store has the blobs of images: indexes, manifests, configs and layers, by digest. An ingest is a blob
// that is being received. Its reference ends with the blob's digest.
//
// Package runtime deletes tasks, package pullprogress reads the content. The package runs no goroutines besides those
// of the connections, and opens a connection at the first request. It never signals a process, and changes no content.
// A task that runs is up to the shim: runc's rejects the deletion, and Kata's stops the task. So the caller first
// requests the container's removal from CRI, which ends a running one too.
package containerd
