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

// requestTimeout is how long the API server may take for one request.
const requestTimeout = 10 * time.Second

// outcome is what became of a request.
type outcome string

const (
	taken outcome = "taken"
	// gone: there is no pod of that UID any more.
	gone outcome = "gone"
	// throttled: the server has too much to do, and says when to come again.
	throttled outcome = "throttled"
	forbidden outcome = "forbidden"
	// refused is every other word against the request.
	refused outcome = "refused"
	// unanswered: the server isn't there, or doesn't know yet, or any more, who asks, or can't reach what it needs for any answer.
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
		// It isn't the API server that says so, but what stands before it.
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

// otherUID tells whether the request was refused because the pod of that name has another UID. A patch that bears the wrong one is a
// conflict to some versions of the API server, and invalid to others.
func otherUID(s metav1.Status) bool {
	switch s.Reason {
	case metav1.StatusReasonConflict:
		return strings.Contains(s.Message, "UID in precondition") || strings.Contains(s.Message, "uid mismatch")
	case metav1.StatusReasonInvalid:
		return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
	}
	return false
}

// patch asks for the task's status, and returns the pod that it came to.
func patch(ctx context.Context, client rest.Interface, t *task) (*v1.Pod, error) {
	body, err := patchOf(t)
	if err != nil {
		return nil, err
	}
	// Retries are the caller's: by then there may be a newer status to send.
	pod := &v1.Pod{}
	err = client.Patch(types.StrategicMergePatchType).Namespace(t.namespace).Resource("pods").Name(t.name).SubResource("status").
		MaxRetries(0).Timeout(requestTimeout).Body(body).Do(ctx).Into(pod)
	return pod, err
}

// patchOf is the difference between the two statuses, with the pod's UID as a precondition.
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

// completeDeletion removes a pod that is being deleted, and of which nothing is left here.
func completeDeletion(ctx context.Context, client rest.Interface, t *task) error {
	now := int64(0)
	return client.Delete().Namespace(t.namespace).Resource("pods").Name(t.name).MaxRetries(0).Timeout(requestTimeout).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(t.uid))}).Do(ctx).Error()
}
