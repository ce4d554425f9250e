package apitest

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reply replaces the usual answer.
type Reply struct {
	// Status is an error. Its RetryAfterSeconds also set the header of that name.
	Status *metav1.Status
	// ContentType and Body are the answer if there is no Status: the code is 200, and the connection is cut after the
	// last byte.
	ContentType string
	Body        []byte
}

// Fail returns the reply of an error.
func Fail(code int, reason metav1.StatusReason, message string) *Reply {
	return &Reply{Status: failure(code, reason, message)}
}

// TooManyRequests returns the reply of a server that is overloaded for so many seconds.
func TooManyRequests(seconds int32) *Reply {
	reply := Fail(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
	reply.Status.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
	return reply
}

func failure(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func badRequest(message string) *metav1.Status {
	return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, message)
}

func expired(message string) *metav1.Status {
	return failure(http.StatusGone, metav1.StatusReasonExpired, message)
}

func invalid(message string) *metav1.Status {
	return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, message)
}

func notFound(r Request) *metav1.Status {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", r.Resource, r.Name))
}

func tooLarge(asked, current uint64) *metav1.Status {
	status := failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
		fmt.Sprintf("Too large resource version: %d, current: %d", asked, current))
	status.Details = &metav1.StatusDetails{
		Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
		RetryAfterSeconds: 1,
	}
	return status
}
