package apistatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"
)

// requestTimeout is the time limit for one request.
const requestTimeout = 10 * time.Second

// outcome is the result of a request.
type outcome string

const (
	taken outcome = "taken"
	// gone: no pod with that UID exists any more.
	gone outcome = "gone"
	// throttled: the server is overloaded, and sends a Retry-After.
	throttled outcome = "throttled"
	forbidden outcome = "forbidden"
	// refused: any other rejection of the request.
	refused outcome = "refused"
	// unanswered: the server is down, can't authenticate the caller, or can't reach a backend that every answer
	// needs.
	unanswered outcome = "unanswered"
)

var outcomes = []outcome{taken, gone, throttled, forbidden, refused, unanswered}

// outcomeOf classifies the error of a request.
func outcomeOf(err error) outcome {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return taken
	case !errors.As(err, &status):
		return unanswered
	case apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err):
		// The response is from a proxy, not from the API server.
		return refused
	case apierrors.IsNotFound(err), otherUID(status.Status()):
		return gone
	case apierrors.IsTooManyRequests(err):
		return throttled
	case apierrors.IsForbidden(err):
		return forbidden
	case apierrors.IsUnauthorized(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err),
		status.Status().Code == http.StatusBadGateway:
		return unanswered
	}
	return refused
}

// otherUID reports whether the request was rejected because the pod of that name has another UID. Some versions of
// the API server answer such a patch with a conflict, others with invalid.
func otherUID(s metav1.Status) bool {
	switch s.Reason {
	case metav1.StatusReasonConflict:
		return strings.Contains(s.Message, "UID in precondition") || strings.Contains(s.Message, "uid mismatch")
	case metav1.StatusReasonInvalid:
		return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
	}
	return false
}

// patch sends the task's status, and returns the resulting pod.
func patch(ctx context.Context, client rest.Interface, t *task) (*v1.Pod, error) {
	body, err := patchOf(t)
	if err != nil {
		return nil, err
	}
	// The caller retries: by then there may be a newer status to send.
	pod := &v1.Pod{}
	err = client.Patch(types.StrategicMergePatchType).Namespace(t.namespace).Resource("pods").Name(t.name).SubResource("status").
		MaxRetries(0).Timeout(requestTimeout).Body(body).Do(ctx).Into(pod)
	return pod, err
}

// patchOf returns the difference between the two statuses, with the pod's UID as a precondition.
func patchOf(t *task) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: *t.there})
	if err != nil {
		return nil, fmt.Errorf("encode the status that the API server has: %w", err)
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: t.uid}, Status: *t.status})
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	body, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("make a patch of the status: %w", err)
	}
	return body, nil
}

// completeDeletion removes a pod that is being deleted and is torn down on this node.
func completeDeletion(ctx context.Context, client rest.Interface, t *task) error {
	now := int64(0)
	return client.Delete().Namespace(t.namespace).Resource("pods").Name(t.name).MaxRetries(0).Timeout(requestTimeout).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(t.uid))}).Do(ctx).Error()
}
