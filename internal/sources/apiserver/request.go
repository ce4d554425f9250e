package apiserver

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// unthrottled lets the gate alone pace a request.
var unthrottled = flowcontrol.NewFakeAlwaysRateLimiter()

// request begins a request.
func (r *reader) request(options *metav1.ListOptions) *rest.Request {
	request := r.server.get(r.resource, r.namespace, options)
	if r.gate != nil {
		request.Throttle(unthrottled)
	}
	return request
}

// page requests a list, or a page of one. If accept is set, its size is bounded.
func (r *reader) page(ctx context.Context, options *metav1.ListOptions) (runtime.Object, error) {
	if r.accept == "" {
		return r.request(options).Do(ctx).Get()
	}
	if options.Continue == "" {
		r.listed = 0
	}
	for {
		if r.limit > 0 && options.Limit > 0 {
			options.Limit = min(options.Limit, r.limit)
		}
		list, err := readPage(ctx, r.request(options), r.accept)
		if errors.Is(err, errLargePage) && options.Limit > 1 && r.accept == metadataAccept {
			r.limit = max(1, options.Limit/4)
			continue
		}
		if err != nil {
			return nil, err
		}
		metadata, ok := list.(*metav1.PartialObjectMetadataList)
		if !ok {
			return list, nil
		}
		if r.listed += len(metadata.Items); r.listed > maxListed {
			return nil, errLargeList
		}
		for i := range metadata.Items {
			metadata.Items[i] = *onlyVersion(&metadata.Items[i])
		}
		return metadata, nil
	}
}

// onlyVersion is an object's metadata without what isn't needed: annotations may have 256 KiB.
func onlyVersion(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}}
}

// enter waits until a request may be made, and then for the gate. The caller calls leave when it is answered.
func (r *reader) enter(ctx context.Context) (leave func(), err error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	return r.gate.enter(ctx, r.namespace)
}

// wait waits until the server may be requested again.
func (r *reader) wait(ctx context.Context) error {
	if r.reconnect {
		r.reconnect = false
		r.server.closeIdle()
	}
	left := r.notBefore.Sub(r.clock.Now())
	if left <= 0 {
		return ctx.Err()
	}
	timer := r.clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail handles the failure and reports it, unless the reflector ends.
func (r *reader) fail(ctx context.Context, err error) {
	r.heed(err)
	if ctx.Err() != nil && !errors.Is(err, errListTimeout) {
		return
	}
	if _, suspect := r.suspect(); suspect && errors.Is(err, context.Canceled) {
		return // A check has ended the request, and the next one reports why.
	}
	r.observer.failed(err)
}

// heed does what a failure requires.
func (r *reader) heed(err error) {
	if apierrors.IsUnauthorized(err) {
		// The credentials of the connection aren't valid any more. A new connection uses those that are in the files
		// then.
		r.reconnect = true
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		r.notBefore = r.clock.Now().Add(min(time.Duration(seconds)*time.Second, maxRetryAfter))
	}
}
