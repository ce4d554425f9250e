package service

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
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
	// keptLists is how many states are kept for lists that are being paged through, keptListsEach how many for one
	// identity other than root and podconfigd's own user, and listKeptFor how long after the last page.
	keptLists     = 32
	keptListsEach = 4
	listKeptFor   = time.Minute
)

// lists keeps the states of the lists that callers page through. Lists of one revision share a state.
type lists struct {
	mu sync.Mutex
	// kept is in the order of use, the last one used at the end.
	kept  []keptList
	pages uint64
}

// keptList is a state, the identity that it is kept for, and the count of the last page that used it.
type keptList struct {
	state    *history.State
	page     uint64
	identity string
	owner    bool
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
		return nil, invalidArgument("page_size: is %d", req.GetPageSize())
	}
	end, err := s.admission.take(ctx, caller)
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, req.GetFilter())
	if err != nil {
		return nil, err
	}
	st, start := s.history.State(), 0
	if req.GetPageToken() != "" {
		if st, start, err = s.lists.find(req.GetPageToken(), v); err != nil {
			return nil, err
		}
	}
	limit := int(req.GetPageSize())
	if limit == 0 {
		limit = defaultPageSize
	}
	resp := &podconfigv1.ListPodsResponse{Revision: st.Number, InstanceId: st.Instance.ID}
	size, encoding := 0, revision.EncodingFor(audienceOf(caller), req.GetFormat())
	for i := start; i < len(st.Pods); i++ {
		if !v.Matches(st.Pods[i]) {
			continue
		}
		m, err := st.Pods[i].Message(encoding)
		if err != nil {
			return nil, statusOf(err)
		}
		n := proto.Size(m)
		if len(resp.Pods) == limit || size > 0 && size+n > wire.FragmentSize {
			resp.NextPageToken = s.lists.keep(st, resp.Pods[len(resp.Pods)-1].GetRef().GetUid(), caller, s.clock)
			break
		}
		resp.Pods, size = append(resp.Pods, m), size+n
	}
	return resp, nil
}

// keep stores the state for a while and returns a token for the page after the pod with the UID last. The token has
// nothing that its caller wasn't sent: an index would reveal how many pods exist that the caller may not see.
func (l *lists) keep(st *history.State, last string, caller access.Caller, c clock.Clock) string {
	page := l.put(st, caller)
	// The function has no reference to the state, as it outlives it.
	delayed(c).AfterFunc(listKeptFor, func() { l.drop(page) })
	token := st.Instance.ID + " " + strconv.FormatUint(st.Number, 10) + " " + last
	return base64.RawURLEncoding.EncodeToString([]byte(token))
}

// delayed returns the clock, or the real one if the clock can't call functions.
func delayed(c clock.Clock) clock.WithDelayedExecution {
	if c, ok := c.(clock.WithDelayedExecution); ok {
		return c
	}
	return clock.RealClock{}
}

// put makes the state the caller's last used one, and returns the count of its page. An identity with too many states
// loses its oldest one. If there are too many in all, the states of root and podconfigd's own user go last.
func (l *lists) put(st *history.State, caller access.Caller) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := func(k keptList) bool { return k.identity == caller.Identity }
	l.kept = slices.DeleteFunc(l.kept, func(k keptList) bool { return own(k) && k.state == st })
	l.pages++
	l.kept = append(l.kept, keptList{st, l.pages, caller.Identity, isOwner(caller)})
	count := 0
	for _, k := range l.kept {
		if own(k) {
			count++
		}
	}
	switch {
	case count > keptListsEach && !isOwner(caller):
		l.dropFirst(own)
	case len(l.kept) > keptLists:
		l.dropFirst(func(k keptList) bool { return !k.owner })
	}
	return l.pages
}

// dropFirst drops the oldest list that matches, or the oldest one if none does.
func (l *lists) dropFirst(matches func(keptList) bool) {
	i := max(slices.IndexFunc(l.kept, matches), 0)
	l.kept = slices.Delete(l.kept, i, i+1)
}

// drop drops the state that was kept for a page, unless it has been used since.
func (l *lists) drop(page uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = slices.DeleteFunc(l.kept, func(k keptList) bool { return k.page == page })
}

// find returns the state of a token, and the index at which its page starts. A token with a pod that isn't in the
// view belongs to another caller, or is forged.
func (l *lists) find(token string, v *view.View) (*history.State, int, error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	fields := strings.SplitN(string(data), " ", 3)
	if err != nil || len(fields) != 3 {
		return nil, 0, invalidArgument("page_token: is invalid")
	}
	number, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return nil, 0, invalidArgument("page_token: is invalid")
	}
	gone := aborted("page_token: revision %d is no longer kept; start the list again without a token", number)
	st := l.state(fields[0], number)
	if st == nil {
		return nil, 0, gone
	}
	last := slices.IndexFunc(st.Pods, func(p *revision.Pod) bool { return string(p.UID()) == fields[2] })
	if last < 0 || !v.Matches(st.Pods[last]) {
		return nil, 0, gone
	}
	return st, last + 1, nil
}

// state returns a kept state, or nil.
func (l *lists) state(instance string, number uint64) *history.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if k.state.Instance.ID == instance && k.state.Number == number {
			return k.state
		}
	}
	return nil
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
		return nil, invalidArgument("ref: needs a uid or a name")
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
	// A pod out of the caller's scope doesn't exist for it.
	if p == nil || !v.Matches(p) {
		return nil, notFound("there is no pod %s", describe(ref, namespace))
	}
	m, err := p.Message(revision.EncodingFor(audienceOf(caller), req.GetFormat()))
	if err != nil {
		return nil, statusOf(err)
	}
	resp := &podconfigv1.GetPodResponse{Pod: m, Revision: st.Number}
	if req.GetWithOrigin() {
		end, err := s.admission.take(ctx, caller)
		if err != nil {
			return nil, err
		}
		defer end()
		resp.Origin = originMessage(s.offerOf(p))
	}
	return resp, nil
}

// podNamed returns the view's pod of that name, or nil. A static pod and its mirror pod have the same name: the
// mirror pod is returned only if there is no other.
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
