package service

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a page.
const (
	defaultPageSize = 500
	// keptLists is how many states are kept for lists that are being paged through, and listKeptFor how long after the last page.
	keptLists   = 32
	listKeptFor = time.Minute
)

// lists keeps the states that somebody is paging through. Lists of one revision share theirs.
type lists struct {
	mu sync.Mutex
	// kept has the one whose page was asked for last at its end.
	kept  []keptList
	pages uint64
}

// keptList is a state, and the count of the last page that it was kept for.
type keptList struct {
	state *history.State
	page  uint64
}

// ListPods is part of podconfig.v1.PodConfigService.
func (s *Server) ListPods(ctx context.Context, req *podconfigv1.ListPodsRequest) (*podconfigv1.ListPodsResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "page_size: is %d", req.GetPageSize())
	}
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, req.GetFilter())
	if err != nil {
		return nil, err
	}
	st, start := s.history.State(), 0
	if req.GetPageToken() != "" {
		if st, start, err = s.lists.find(req.GetPageToken()); err != nil {
			return nil, err
		}
	}
	limit := int(req.GetPageSize())
	if limit == 0 {
		limit = defaultPageSize
	}
	resp := &podconfigv1.ListPodsResponse{Revision: st.Number, InstanceId: st.Instance}
	size := 0
	for i := start; i < len(st.Pods); i++ {
		if !v.Matches(st.Pods[i]) {
			continue
		}
		m, err := st.Pods[i].Message(revision.Encoding{Format: req.GetFormat(), Redacted: v.Redacted()})
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		n := proto.Size(m)
		if len(resp.Pods) == limit || size > 0 && size+n > wire.FragmentSize {
			resp.NextPageToken = s.lists.keep(st, i, s.clock)
			break
		}
		resp.Pods, size = append(resp.Pods, m), size+n
	}
	return resp, nil
}

// keep remembers the state for a while and returns a token for the page that starts at index.
func (l *lists) keep(st *history.State, index int, c clock.Clock) string {
	page := l.put(st)
	later, ok := c.(clock.WithDelayedExecution)
	if !ok {
		later = clock.RealClock{}
	}
	// The function holds no state, as it lives on when the state has been dropped.
	later.AfterFunc(listKeptFor, func() { l.drop(page) })
	token := st.Instance + " " + strconv.FormatUint(st.Number, 10) + " " + strconv.Itoa(index)
	return base64.RawURLEncoding.EncodeToString([]byte(token))
}

// put makes the state the one that was used last, and returns the count of its page.
func (l *lists) put(st *history.State) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = slices.DeleteFunc(l.kept, func(k keptList) bool { return k.state == st })
	l.pages++
	l.kept = append(l.kept, keptList{st, l.pages})
	if len(l.kept) > keptLists {
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	return l.pages
}

// drop forgets the state that was kept for a page, unless it has been used again since.
func (l *lists) drop(page uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = slices.DeleteFunc(l.kept, func(k keptList) bool { return k.page == page })
}

func (l *lists) find(token string) (*history.State, int, error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	fields := strings.Fields(string(data))
	if err != nil || len(fields) != 3 {
		return nil, 0, status.Error(codes.InvalidArgument, "page_token: isn't one of podconfigd's")
	}
	number, err1 := strconv.ParseUint(fields[1], 10, 64)
	index, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil || index < 0 {
		return nil, 0, status.Error(codes.InvalidArgument, "page_token: isn't one of podconfigd's")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if k.state.Instance == fields[0] && k.state.Number == number {
			return k.state, index, nil
		}
	}
	return nil, 0, status.Errorf(codes.Aborted,
		"page_token: revision %d is no longer kept; start the list again without a token", number)
}

// GetPod is part of podconfig.v1.PodConfigService.
func (s *Server) GetPod(ctx context.Context, req *podconfigv1.GetPodRequest) (*podconfigv1.GetPodResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, nil)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	ref := req.GetRef()
	if ref.GetUid() == "" && ref.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "ref: needs a uid or a name")
	}
	namespace := ref.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	st := s.history.State()
	var p *revision.Pod
	if ref.GetUid() != "" {
		p = st.Pod(types.UID(ref.GetUid()))
	} else {
		p = podNamed(st, v, namespace, ref.GetName())
	}
	// What is out of the caller's scope doesn't exist for it.
	if p == nil || !v.Matches(p) {
		return nil, status.Errorf(codes.NotFound, "there is no pod %s", describe(ref, namespace))
	}
	m, err := p.Message(revision.Encoding{Format: req.GetFormat(), Redacted: v.Redacted()})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &podconfigv1.GetPodResponse{Pod: m, Revision: st.Number}, nil
}

// podNamed is the view's pod of that name, or nil. A static pod and the API server's mirror of it have the same one: the mirror is
// only found where there is nothing else.
func podNamed(st *history.State, v *view.View, namespace, name string) *revision.Pod {
	var mirror *revision.Pod
	for _, p := range st.Pods {
		if p.Object.Namespace != namespace || p.Object.Name != name || !v.Matches(p) {
			continue
		}
		if _, ok := p.Object.Annotations[manifest.MirrorAnnotation]; !ok {
			return p
		}
		mirror = p
	}
	return mirror
}

func describe(ref *podconfigv1.PodRef, namespace string) string {
	if ref.GetUid() != "" {
		return "with uid " + ref.GetUid()
	}
	return namespace + "/" + ref.GetName()
}
