package apistatus_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// model is a node to which everything happens. Of each pod it counts the statuses: a restart count that only rises.
type model struct {
	*node
	rand *rand.Rand
	pods map[types.UID]*modelPod
	next int
	// lag is how long the stream takes, at most. down is how requests fail.
	lag  time.Duration
	down fakeapi.Fault

	// arrival is when the last change arrives that was sent; none overtakes another. shown are the highest counts at the server.
	// luck is for what the server does.
	mu      sync.Mutex
	luck    *rand.Rand
	arrival time.Time
	shown   map[types.UID]int32
}

type modelPod struct {
	uid    types.UID
	state  podexecv1.WorkerState
	count  int32
	status *v1.PodStatus
	// stored is the status after a restart: it may be older.
	stored  *v1.PodStatus
	changed time.Time
	static  bool
}

// changed is the server's Changed: it checks that no status goes back, and streams the pod.
func (m *model) changed(pod *v1.Pod, removed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := pod.Status.ContainerStatuses; len(s) == 1 {
		if s[0].RestartCount < m.shown[pod.UID] {
			m.t.Errorf("pod %s: the server's status is the %dth; before it was the %dth", pod.UID, s[0].RestartCount, m.shown[pod.UID])
		}
		m.shown[pod.UID] = s[0].RestartCount
	}
	at := time.Now().Add(time.Duration(m.luck.Int64N(int64(m.lag) + 1)))
	if !at.After(m.arrival) {
		at = m.arrival.Add(time.Nanosecond)
	}
	m.arrival = at
	time.AfterFunc(time.Until(at), func() { m.stream(pod, removed) })
}

// fault is the server's Fault.
func (m *model) fault(fakeapi.Request) fakeapi.Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.luck.IntN(3) == 0 {
		return fakeapi.Fault{}
	}
	return m.down
}

func (m *model) set(lag time.Duration, down fakeapi.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag, m.down = lag, down
}

// object is a pod as it is desired here, or nil while the stream hasn't brought it.
func (m *model) object(p *modelPod) *v1.Pod { return m.node.pods.Get(p.uid) }

// put shows a pod with a status.
func (m *model) put(p *modelPod, status *v1.PodStatus, changed time.Time) {
	if pod := m.object(p); pod != nil {
		m.node.mu.Lock()
		defer m.node.mu.Unlock()
		m.board.Set(podview.Pod{
			UID: p.uid, Namespace: pod.Namespace, Name: pod.Name, State: p.state, Desired: true, Changed: changed, Status: status, Object: pod,
		})
	}
}

// act has podexecd do something with a pod, and show it.
func (m *model) act(p *modelPod) {
	pod := m.object(p)
	if pod == nil {
		return
	}
	p.count++
	p.changed = time.Now()
	switch {
	case pod.DeletionTimestamp != nil && p.state == syncing:
		p.state = terminating
	case p.state == terminating:
		p.state = finished
	}
	state := runs()
	phase, ready := v1.PodRunning, m.rand.IntN(2) == 0
	if p.state == finished {
		state, phase, ready = ended(0), v1.PodSucceeded, false
	}
	p.status = statusOf(phase, ready, state)
	p.status.ContainerStatuses[0].RestartCount = p.count
	if m.rand.IntN(3) > 0 {
		p.stored = p.status
	}
	m.put(p, p.status, p.changed)
}

// restart restarts podexecd, which first shows the stored statuses, and soon the current ones.
func (m *model) restart() {
	at := map[types.UID]time.Time{}
	for uid, p := range m.pods {
		at[uid] = p.changed
	}
	time.Sleep(time.Duration(m.rand.IntN(1000)) * time.Millisecond)
	m.live()
	for uid, p := range m.pods {
		if p.stored != nil {
			m.put(p, p.stored, at[uid])
		}
	}
	time.Sleep(time.Duration(m.rand.IntN(1500)) * time.Millisecond)
	for _, p := range m.pods {
		if p.status != nil {
			p.changed = time.Now()
			m.put(p, p.status, p.changed)
		}
	}
}

func (m *model) add() {
	m.next++
	p := &modelPod{uid: types.UID(fmt.Sprint(m.next)), state: syncing, static: m.rand.IntN(4) == 0}
	m.pods[p.uid] = p
	pod := newPod(p.uid)
	if p.static {
		static := pod.DeepCopy()
		static.Annotations = map[string]string{"kubernetes.io/config.hash": "hash", "kubernetes.io/config.source": "file"}
		m.node.pods.Put(static)
		pod.UID = "mirror-" + p.uid
		pod.Annotations = map[string]string{podmeta.MirrorAnnotation: "hash"}
	}
	m.api.Put(pod)
}

// any is one of the pods; nil if there is none.
func (m *model) any() *modelPod {
	skip := 0
	if len(m.pods) > 0 {
		skip = m.rand.IntN(len(m.pods))
	}
	for _, uid := range sorted(m.pods) {
		if skip == 0 {
			return m.pods[uid]
		}
		skip--
	}
	return nil
}

func sorted(pods map[types.UID]*modelPod) []types.UID {
	var out []types.UID
	for i := 1; len(out) < len(pods); i++ {
		if uid := types.UID(fmt.Sprint(i)); pods[uid] != nil {
			out = append(out, uid)
		}
	}
	return out
}

// step does something.
func (m *model) step() {
	p := m.any()
	switch n := m.rand.IntN(20); {
	case p == nil || (n == 0 && len(m.pods) < 8):
		m.add()
	case n == 1:
		m.restart()
	case n == 2:
		faults := []fakeapi.Fault{
			{}, {}, {Lost: true}, {Lost: true, Done: true}, {Lost: true, Hangs: true}, {Code: http.StatusServiceUnavailable},
			{Code: http.StatusInternalServerError}, {Code: http.StatusForbidden}, {Code: http.StatusTooManyRequests, RetryAfter: 2},
		}
		lags := []time.Duration{0, 50 * time.Millisecond, 5 * time.Second}
		m.set(lags[m.rand.IntN(len(lags))], faults[m.rand.IntN(len(faults))])
	case n == 3 && !p.static:
		m.deleted("pod-" + string(p.uid))
	case n == 4:
		m.api.Update("ns", "pod-"+string(p.uid), func(pod *v1.Pod) {
			gate := v1.PodCondition{
				Type: "example.com/gate", Status: v1.ConditionTrue, Message: fmt.Sprint(m.rand.Int()), LastTransitionTime: metav1.Now(),
			}
			for i := range pod.Status.Conditions {
				if pod.Status.Conditions[i].Type == gate.Type {
					pod.Status.Conditions[i] = gate
					return
				}
			}
			pod.Status.Conditions = append(pod.Status.Conditions, gate)
		})
	case n < 8:
		time.Sleep(time.Duration(m.rand.Int64N(int64(5 * time.Second))))
	default:
		m.act(p)
		time.Sleep(time.Duration(m.rand.Int64N(int64(200 * time.Millisecond))))
	}
}

// settle ends all faults, and checks that the server has the board's statuses.
func (m *model) settle() {
	m.set(0, fakeapi.Fault{})
	// What is being deleted ends; what is stored is what is shown.
	for range 3 {
		time.Sleep(10 * time.Second)
		for _, uid := range sorted(m.pods) {
			p := m.pods[uid]
			pod := m.object(p)
			if p.state == terminating || p.status == nil || (pod != nil && pod.DeletionTimestamp != nil && p.state == syncing) {
				m.act(p)
			}
		}
	}
	time.Sleep(time.Minute)
	for uid, p := range maps.Clone(m.pods) {
		pod := m.api.Get("ns", "pod-"+string(uid))
		if p.state == finished {
			if pod != nil {
				m.t.Errorf("pod %s has ended, and isn't gone: %+v", uid, pod.Status)
			}
			continue
		}
		if pod == nil || len(pod.Status.ContainerStatuses) != 1 {
			m.t.Errorf("pod %s isn't told of", uid)
			continue
		}
		got, want := pod.Status.ContainerStatuses[0], p.status.ContainerStatuses[0]
		if got.RestartCount != want.RestartCount || got.Ready != want.Ready || pod.Status.Phase != p.status.Phase {
			m.t.Errorf("pod %s: the server has %s, %+v; want %+v", uid, pod.Status.Phase, got, want)
		}
	}
	before := len(m.api.Requests())
	time.Sleep(10 * time.Minute)
	if got := m.api.Requests()[before:]; len(got) > 0 {
		m.t.Errorf("there is no rest: %d requests in ten minutes; the first: %s", len(got), got[0].Body)
	}
}

// Whatever happens to the pods, the server, the stream and podexecd itself: no status goes back, and in the end the server has what the board
// has.
func TestRandom(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{node: newNode(t), pods: map[types.UID]*modelPod{}, shown: map[types.UID]int32{}}
				m.rand, m.luck = rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // They keep no secrets.
				m.api.Changed, m.api.Fault = m.changed, m.fault
				for range 150 {
					m.step()
				}
				m.settle()
			})
		})
	}
}
