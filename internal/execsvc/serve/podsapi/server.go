package podsapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// Server implements v1alpha1.Pods.
type Server struct {
	podsv1alpha1.UnimplementedPodsServer

	board   *podview.Board
	metrics *metrics
	// closing ends when the server closes.
	closing context.Context //nolint:containedctx // Its streams' contexts end with it.
	close   context.CancelFunc
}

// New returns a Server of the board's pods. Its metrics are registered, unless r is nil.
func New(b *podview.Board, r prometheus.Registerer) *Server {
	s := &Server{board: b, metrics: newMetrics(r)}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends every stream with UNAVAILABLE.
func (s *Server) Close() { s.close() }

// ListPods is part of v1alpha1.Pods. The API has no pages: a client may have to accept more than gRPC's usual 4 MiB.
func (s *Server) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (_ *podsv1alpha1.ListPodsResponse, err error) {
	defer s.metrics.count(s.metrics.lists, &err)
	pods := slices.DeleteFunc(s.board.All(), func(p podview.Pod) bool { return p.Object == nil })
	slices.SortFunc(pods, func(a, b podview.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	resp := &podsv1alpha1.ListPodsResponse{}
	for _, p := range pods {
		data, err := encode(p)
		if err != nil {
			return nil, err
		}
		resp.Pods = append(resp.Pods, data)
	}
	return resp, nil
}

// GetPod is part of v1alpha1.Pods.
func (s *Server) GetPod(_ context.Context, req *podsv1alpha1.GetPodRequest) (_ *podsv1alpha1.GetPodResponse, err error) {
	defer s.metrics.count(s.metrics.gets, &err)
	if req.GetPodUID() == "" {
		return nil, status.Error(codes.InvalidArgument, "podUID: is empty")
	}
	p, ok := s.board.Get(types.UID(req.GetPodUID()))
	if !ok || p.Object == nil {
		return nil, status.Errorf(codes.NotFound, "there is no pod %s", req.GetPodUID())
	}
	data, err := encode(p)
	if err != nil {
		return nil, err
	}
	return &podsv1alpha1.GetPodResponse{Pod: data}, nil
}

// encode returns the pod with its current status.
func encode(p podview.Pod) ([]byte, error) {
	pod := *p.Object
	if p.Status != nil {
		pod.Status = *p.Status
	}
	data, err := pod.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encode pod %s: %v", p.UID, err)
	}
	return data, nil
}

// reference returns the encoding of a removed pod.
func reference(p *v1.Pod) ([]byte, error) {
	ref := v1.Pod{}
	ref.UID, ref.Namespace, ref.Name = p.UID, p.Namespace, p.Name
	data, err := ref.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encode pod %s: %v", p.UID, err)
	}
	return data, nil
}
