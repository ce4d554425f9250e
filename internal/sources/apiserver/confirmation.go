package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// confirm returns nil if a watch that was opened, or an object that was read, is of the cluster.
func (r *reader) confirm(ctx context.Context) error {
	if r.same == nil {
		return r.server.identity.recent(ctx)
	}
	return r.server.identity.confirmTwice(ctx, nil)
}

// confirmList returns nil if a list is of the cluster. refusals are from before it, see suspect.
func (r *reader) confirmList(ctx context.Context, list runtime.Object, refusals uint64) error {
	var err error
	if r.same == nil {
		err = r.server.identity.confirm(ctx, nil)
	} else {
		err = r.server.identity.confirmTwice(ctx, func(pods []types.UID) bool { return r.same(list, pods) })
	}
	if err == nil {
		r.refusals = refusals
	}
	return err
}

// suspect reports whether another cluster has answered since the last complete reading began. What a watch has added since
// then, and its version, may be of that cluster: only a complete reading at no version ends that. refusals is for the next
// call, if that reading is of the cluster.
func (r *reader) suspect() (refusals uint64, suspect bool) {
	refusals = r.server.identity.refused()
	return refusals, refusals != r.refusals
}

// where returns how far the pods follow the cluster.
func (r *reader) where() point {
	if r.pods == nil {
		return point{}
	}
	return r.pods.where()
}

// begin records that the next Replace is of an answer to a request with these options, which was checked. before is from
// before the request.
func (r *reader) begin(ctx context.Context, before point, options *metav1.ListOptions) {
	if r.pods == nil {
		return
	}
	r.server.release.check(ctx)
	if options.Continue == "" {
		r.snapshot = snapshot{before: before, consistent: options.ResourceVersion == ""}
	}
	r.snapshot.of = r.server.identity.lineage()
	r.pods.begin(r.snapshot)
}
