package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/failpoint"
)

// requestTimeout is the time limit for one request.
const requestTimeout = 10 * time.Second

var (
	// errNotYet is returned while too little is known to decide. The next comparison may decide.
	errNotYet = errors.New("not yet")
	// errForeign is returned if a pod that mirrors nothing, or another node's pod, has the mirror pod's name.
	errForeign = errors.New("another pod has its name")
	// errReferences is returned for a pod that the API server doesn't allow a mirror pod of.
	errReferences = errors.New("a mirror pod may not refer to objects of the API server")
)

// entry is the state of a name.
type entry struct {
	// seen is set once there was a static pod: if it is gone, its source has removed it.
	seen bool
	// made is the mirror pod that was created, or found, at that time, until the stream has it. removed is the last
	// one that was removed, at that time: the stream may still have it for a while.
	made *v1.Pod
	at   time.Time
	// unstreamed is the last created mirror pod that never appeared in the stream.
	unstreamed types.UID
	removed    types.UID
	removedAt  time.Time
	// trouble is the logged reason why there is no mirror pod.
	trouble string
}

// reconcile creates or removes the mirror pod of a name as needed.
func (k *Keeper) reconcile(ctx context.Context, name types.NamespacedName) error {
	e := k.entries[name]
	if e == nil {
		e = &entry{}
		k.entries[name] = e
	}
	static, mirror := k.cfg.Pods.ByName(name.Namespace, name.Name), k.mirrorOf(name, e)
	if static == nil || !podmeta.IsStatic(static) {
		return k.clear(ctx, name, e, mirror)
	}
	e.seen = true
	refers, uid := references(static), k.cfg.NodeUID()
	switch {
	case mirror != nil && refers == "" && k.good(mirror, static, uid):
		return nil
	case refers == "" && uid == "":
		return errNotYet
	case mirror != nil && mirror.DeletionTimestamp == nil && k.cfg.Ending(name.Namespace, name.Name):
		// The static pod's former version is terminating. Its mirror pod represents it until it has ended.
		return errNotYet
	}
	if mirror != nil {
		if err := k.remove(ctx, e, mirror, "it doesn't mirror the static pod as it is now"); err != nil {
			return err
		}
	}
	switch {
	case refers != "":
		return fmt.Errorf("%w: this pod refers to %s", errReferences, refers)
	case time.Since(e.at) < k.cfg.Period:
		// Another client removes it as soon as it is created. Don't compete.
		return errNotYet
	}
	return k.create(ctx, e, static, uid)
}

// clear removes a mirror pod without a static pod, if its source is ready and the pod has ended.
func (k *Keeper) clear(ctx context.Context, name types.NamespacedName, e *entry, mirror *v1.Pod) error {
	switch {
	case mirror == nil && k.cfg.Mirrors.ByName(name.Namespace, name.Name) == nil:
		delete(k.entries, name)
		return nil
	case mirror == nil, !e.seen && !k.cfg.Settled(""), k.cfg.Ending(name.Namespace, name.Name), failpoint.Active(failpoint.LeaveMirror):
		return errNotYet
	}
	return k.remove(ctx, e, mirror, "its static pod is gone")
}

// mirrorOf returns the API server's mirror pod as far as known, or nil: the stream's, unless one has been removed or
// created since.
func (k *Keeper) mirrorOf(name types.NamespacedName, e *entry) *v1.Pod {
	streamed := k.cfg.Mirrors.ByName(name.Namespace, name.Name)
	if streamed != nil && (streamed.UID != e.removed || time.Since(e.removedAt) > streamPatience) {
		e.made, k.blind = nil, false
		return streamed
	}
	if e.made != nil && time.Since(e.at) > streamPatience {
		// It may have been removed before it appeared in the stream.
		e.unstreamed, e.made = e.made.UID, nil
	}
	return e.made
}

// good reports whether mirror represents this static pod on this Node, isn't being deleted, and hasn't ended unless
// the static pod has.
func (k *Keeper) good(mirror, static *v1.Pod, node types.UID) bool {
	owner := metav1.GetControllerOf(mirror)
	ended := podmeta.IsTerminal(mirror.Status.Phase)
	return mirror.DeletionTimestamp == nil && mirror.Annotations[podmeta.MirrorAnnotation] == static.Annotations[podmeta.HashAnnotation] &&
		(owner == nil || node == "" || owner.UID == node) && !(ended && k.cfg.Lives(static.UID))
}

// mirrorFor returns the mirror pod for a static pod.
func mirrorFor(static *v1.Pod, node string, uid types.UID) *v1.Pod {
	controller := true
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: static.Namespace, Name: static.Name, Labels: static.Labels, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: uid, Controller: &controller}},
		},
		Spec: static.Spec,
	}
	for key, value := range static.Annotations {
		pod.Annotations[key] = value
	}
	pod.Annotations[podmeta.MirrorAnnotation] = static.Annotations[podmeta.HashAnnotation]
	return pod
}

// create creates the mirror pod. If one of its name exists that the stream lacks, that is checked.
func (k *Keeper) create(ctx context.Context, e *entry, static *v1.Pod, uid types.UID) error {
	pod := mirrorFor(static, k.cfg.Node, uid)
	err := k.post(ctx, e, pod)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &v1.Pod{}
	err = k.cfg.Client.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).MaxRetries(0).Timeout(requestTimeout).Do(ctx).Into(there)
	k.heard(ctx, err)
	switch {
	case err != nil:
		return fmt.Errorf("get the pod that has the mirror pod's name: %w", err)
	case !podmeta.IsMirror(there) || there.Spec.NodeName != k.cfg.Node:
		return fmt.Errorf("%w, uid %s", errForeign, there.UID)
	case k.good(there, static, uid):
		k.missed(e, there)
		e.made, e.at = there, time.Now()
		return nil
	}
	if err := k.remove(ctx, e, there, "it mirrors another pod"); err != nil {
		return err
	}
	return k.post(ctx, e, pod)
}

func (k *Keeper) post(ctx context.Context, e *entry, pod *v1.Pod) error {
	made := &v1.Pod{}
	err := k.cfg.Client.Post().Namespace(pod.Namespace).Resource("pods").MaxRetries(0).Timeout(requestTimeout).Body(pod).Do(ctx).Into(made)
	k.heard(ctx, err)
	if err != nil {
		return fmt.Errorf("create the mirror pod: %w", err)
	}
	e.made, e.at = made, time.Now()
	k.log.Info("mirror pod is made", "pod", podmeta.LogName(pod), "uid", made.UID)
	return nil
}

// remove deletes the mirror pod with that UID at once. A missing one is no error.
func (k *Keeper) remove(ctx context.Context, e *entry, mirror *v1.Pod, why string) error {
	now := int64(0)
	err := k.cfg.Client.Delete().Namespace(mirror.Namespace).Resource("pods").Name(mirror.Name).MaxRetries(0).Timeout(requestTimeout).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(mirror.UID))}).Do(ctx).Error()
	k.heard(ctx, err)
	// A 404 from a proxy isn't the API server's answer.
	missing := apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
	if err != nil && !missing && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the mirror pod: %w", err)
	}
	e.removed, e.removedAt, e.made = mirror.UID, time.Now(), nil
	if err == nil {
		k.log.Info("mirror pod is removed", "pod", podmeta.LogName(mirror), "uid", mirror.UID, "why", why)
	}
	return nil
}
