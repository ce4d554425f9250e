package fakeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// do applies the request.
func (s *Server) do(req Request) (code int, body any) {
	switch req.Verb {
	case "create":
		return s.create(req)
	case "get":
		if pod := s.Get(req.Namespace, req.Name); pod != nil {
			return http.StatusOK, typed(pod)
		}
		return notFound(req.Name)
	case "patch":
		return s.patch(req)
	case "delete":
		return s.delete(req)
	}
	return http.StatusMethodNotAllowed, failure(http.StatusMethodNotAllowed, req.Verb, nil)
}

func (s *Server) create(req Request) (code int, body any) {
	pod := &v1.Pod{}
	if err := json.Unmarshal(req.Body, pod); err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, err.Error(), nil)
	}
	s.mu.Lock()
	if s.pods[req.Namespace+"/"+pod.Name] != nil {
		s.mu.Unlock()
		f := failure(http.StatusConflict, fmt.Sprintf("pods %q already exists", pod.Name), nil)
		f.Reason = metav1.StatusReasonAlreadyExists
		return http.StatusConflict, f
	}
	pod.UID, pod.Generation = "", 1
	pod.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBestEffort}
	pod = s.store(pod)
	s.mu.Unlock()
	s.changed(pod, false)
	return http.StatusCreated, typed(pod)
}

func (s *Server) patch(req Request) (code int, body any) {
	s.mu.Lock()
	pod := s.pods[req.Namespace+"/"+req.Name]
	if pod == nil {
		s.mu.Unlock()
		return notFound(req.Name)
	}
	before, _ := json.Marshal(pod)
	after, err := strategicpatch.StrategicMergePatch(before, req.Body, v1.Pod{})
	patched := &v1.Pod{}
	if err == nil {
		err = json.Unmarshal(after, patched)
	}
	switch {
	case err != nil:
		s.mu.Unlock()
		return http.StatusBadRequest, failure(http.StatusBadRequest, err.Error(), nil)
	case patched.UID != pod.UID && s.InvalidUID:
		s.mu.Unlock()
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, "is invalid", &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid", Message: "field is immutable"}},
		})
	case patched.UID != pod.UID:
		uid := pod.UID
		s.mu.Unlock()
		return otherUID(patched.UID, uid)
	}
	out := pod.DeepCopy()
	out.Status = patched.Status
	if s.Omit != nil {
		s.Omit(&out.Status)
	}
	if equality.Semantic.DeepEqual(out, pod) {
		s.mu.Unlock()
		return http.StatusOK, typed(out)
	}
	out = s.store(out)
	s.mu.Unlock()
	s.changed(out, false)
	return http.StatusOK, typed(out)
}

func (s *Server) delete(req Request) (code int, body any) {
	options := metav1.DeleteOptions{}
	if err := json.Unmarshal(req.Body, &options); err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, err.Error(), nil)
	}
	s.mu.Lock()
	pod := s.pods[req.Namespace+"/"+req.Name].DeepCopy()
	switch p := options.Preconditions; {
	case pod == nil:
		s.mu.Unlock()
		return notFound(req.Name)
	case p != nil && p.UID != nil && *p.UID != pod.UID:
		s.mu.Unlock()
		return otherUID(*p.UID, pod.UID)
	}
	grace := int64(30)
	if options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	removed := grace == 0 && len(pod.Finalizers) == 0
	switch {
	case removed:
		delete(s.pods, req.Namespace+"/"+req.Name)
		s.version++
		pod.ResourceVersion = strconv.Itoa(s.version)
	case pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != grace:
		at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)).Rfc3339Copy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
		pod = s.store(pod)
	default:
		s.mu.Unlock()
		return http.StatusOK, typed(pod)
	}
	s.mu.Unlock()
	s.changed(pod, removed)
	return http.StatusOK, typed(pod)
}

func typed(pod *v1.Pod) *v1.Pod {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod
}

func notFound(name string) (code int, body any) {
	return http.StatusNotFound, failure(http.StatusNotFound, fmt.Sprintf("pods %q not found", name), nil)
}

func otherUID(asked, has types.UID) (code int, body any) {
	message := fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", asked, has)
	return http.StatusConflict, failure(http.StatusConflict, message, nil)
}

var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
}

func failure(code int, message string, details *metav1.StatusDetails) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), //nolint:gosec // An HTTP status.
		Reason: reasons[code], Message: message, Details: details,
	}
}
