package podexecapi

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func TestGetPod(t *testing.T) {
	leaving, coming := pod("default", "web", "old"), pod("default", "web", "new")
	leaving.Desired = false
	gone := pod("default", "gone", "4")
	gone.Desired = false
	other := pod("other", "web", "3")
	tests := []struct {
		name string
		ref  *podconfigv1.PodRef
		want string
		code codes.Code
	}{
		{name: "by UID", ref: &podconfigv1.PodRef{Uid: "uid-3"}, want: "uid-3"},
		{name: "by UID, whatever the name", ref: &podconfigv1.PodRef{Uid: "uid-3", Name: "gone"}, want: "uid-3"},
		{name: "by name", ref: &podconfigv1.PodRef{Namespace: "other", Name: "web"}, want: "uid-3"},
		{name: "of two, the desired one", ref: &podconfigv1.PodRef{Name: "web"}, want: "uid-new"},
		{name: "only one on its way out", ref: &podconfigv1.PodRef{Name: "gone"}, want: "uid-4"},
		{name: "unknown UID", ref: &podconfigv1.PodRef{Uid: "uid-9", Name: "web"}, code: codes.NotFound},
		{name: "unknown name", ref: &podconfigv1.PodRef{Namespace: "other", Name: "gone"}, code: codes.NotFound},
		{name: "no ref", code: codes.InvalidArgument},
		{name: "namespace only", ref: &podconfigv1.PodRef{Namespace: "other"}, code: codes.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range []*Server{serve(leaving, coming, other, gone), serve(gone, other, coming, leaving)} {
				resp, err := s.GetPod(as(t, access.Caller{Role: access.Consumer}), &podexecv1.GetPodRequest{Ref: tt.ref})
				if status.Code(err) != tt.code || resp.GetPod().GetRef().GetUid() != tt.want {
					t.Errorf("pod %v, error %v; want %q, %v", resp.GetPod().GetRef(), err, tt.want, tt.code)
				}
			}
		})
	}
}

func TestGetPodRefusesFormat(t *testing.T) {
	_, err := serve().GetPod(as(t, access.Caller{Role: access.Consumer}), &podexecv1.GetPodRequest{Ref: &podconfigv1.PodRef{Name: "web"}, Format: 99})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v; want INVALID_ARGUMENT", err)
	}
}
