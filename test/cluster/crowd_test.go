package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// sequence is the annotation that a change sets: its number.
const sequence = "podstream.test/sequence"

// crowd are nodes that follow gateways over mutual TLS, each with its own certificate and connection.
type crowd struct {
	members []*member
	// arrived has, by the number of a change, when a node received it, in nanoseconds since began.
	began   time.Time
	arrived []atomic.Int64
	// changed is signalled when a node's state has changed.
	changed chan struct{}
	// removed counts the pods that nodes were told to remove, and timeouts the connections that took too long.
	removed, timeouts atomic.Int64
}

// member is one of the nodes.
type member struct {
	crowd *crowd
	node  string

	mu     sync.Mutex
	pods   map[types.UID]bool
	synced time.Time // zero: not in sync
	last   error
	// held: the podconfigd tells it nothing of the source.
	held bool
	// at is the ID of the podconfigd that it follows.
	at   string
	stop func()
}

// startCrowd starts nodes of the prefix, which follow the endpoint.
func startCrowd(t *testing.T, prefix string, nodes, changes int, endpoint string) *crowd {
	t.Helper()
	c := &crowd{began: time.Now(), arrived: make([]atomic.Int64, changes), changed: make(chan struct{}, 1)}
	for i := range nodes {
		c.join(t, fmt.Sprintf("%s-%d", prefix, i), endpoint)
	}
	t.Cleanup(c.stop)
	return c
}

// join adds a node, which follows the endpoint.
func (c *crowd) join(t *testing.T, node, endpoint string) {
	t.Helper()
	m := &member{crowd: c, node: node, pods: map[types.UID]bool{}}
	m.follow(t, endpoint, nodeTLS(t, t.TempDir(), node))
	c.members = append(c.members, m)
}

// nodeTLS issues the certificate of a node, with its file in a directory.
func nodeTLS(t *testing.T, dir, node string) client.TLS {
	t.Helper()
	file := filepath.Join(dir, node+".pem")
	pem := rig.Get(plane.Authority.Issue("system:node:"+node, "system:nodes", time.Now().Add(control.CertificateLife)))(t)
	rig.Must(t, os.WriteFile(file, pem, 0o600))
	return client.TLS{CertFile: file, KeyFile: file, CAFile: plane.Authority.File}
}

func (c *crowd) stop() {
	var ending sync.WaitGroup
	for _, m := range c.members {
		ending.Go(m.stop)
	}
	ending.Wait()
}

func (m *member) follow(t *testing.T, endpoint string, files client.TLS) {
	t.Helper()
	c := rig.Get(client.New(client.Config{
		Endpoint: endpoint, Order: client.Listed, ReturnAfter: -1, SpreadKey: m.node,
		TLS: files, OnBreak: m.broke,
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	m.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		_ = c.Close()
	})
	go func() {
		defer close(ended)
		err := c.Watch(ctx, client.WatchOptions{Filter: &podconfigv1.PodFilter{Nodes: []string{m.node}}}, m.apply)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("node %s: %v", m.node, err)
		}
	}()
}

func (m *member) broke(err error) {
	m.mu.Lock()
	m.synced, m.last = time.Time{}, err
	m.mu.Unlock()
	if strings.Contains(err.Error(), "deadline exceeded") || strings.Contains(err.Error(), "DeadlineExceeded") {
		m.crowd.timeouts.Add(1)
	}
}

func (m *member) apply(_ context.Context, e client.Event) error {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range e.Ops {
		if change.Source == "api" && change.SourceReady && m.synced.IsZero() {
			m.synced = now
		}
		for _, p := range change.Pods {
			if change.Op == client.Remove {
				m.crowd.removed.Add(1)
				delete(m.pods, p.UID)
				continue
			}
			m.pods[p.UID] = true
			if n, err := strconv.Atoi(p.Object.Annotations[sequence]); err == nil {
				m.crowd.arrived[n].CompareAndSwap(0, int64(now.Sub(m.crowd.began)))
			}
		}
	}
	m.at = e.Cursor.GetPodconfigdId()
	for _, s := range e.Sources {
		if s.Name != "api" {
			continue
		}
		m.held = s.HeldReason != ""
		if m.synced = now; !s.Ready || m.held {
			m.synced = time.Time{}
		}
	}
	select {
	case m.crowd.changed <- struct{}{}:
	default:
	}
	return nil
}

// await waits until each node is in sync with so many pods, and returns when the last of them was.
func (c *crowd) await(t *testing.T, pods int, limit time.Duration) time.Time {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		var last time.Time
		var why string
		missing := 0
		for _, m := range c.members {
			m.mu.Lock()
			if m.synced.IsZero() || len(m.pods) != pods {
				missing++
				why = fmt.Sprintf("%s has %d, in sync since %v, last error %v", m.node, len(m.pods), m.synced, m.last)
			} else if m.synced.After(last) {
				last = m.synced
			}
			m.mu.Unlock()
		}
		if missing == 0 {
			return last
		}
		select {
		case <-c.changed:
			time.Sleep(10 * time.Millisecond) // A look at all nodes for each change would be a load of its own.
		case <-deadline.C:
			t.Fatalf("%d of %d nodes aren't in sync with %d pods after %v: %s", missing, len(c.members), pods, limit, why)
		}
	}
}

// fleetClient is an administrator's client whose requests and answers are cheap for the server.
func fleetClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := plane.ClientConfig(plane.URL, rig.Get(os.ReadFile(plane.Path("admin.pem")))(t))
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	return rig.Get(kubernetes.NewForConfig(config))(t)
}

// populate creates pods on each node, and returns their names. They are gone after the test.
func populate(t *testing.T, kube kubernetes.Interface, prefix string, nodes, pods int) []string {
	t.Helper()
	var names []string
	for i := range nodes * pods {
		names = append(names, fmt.Sprintf("%s-%d-%d", prefix, i%nodes, i/nodes))
	}
	each(t, names, func(name string) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": prefix}},
			Spec: corev1.PodSpec{NodeName: name[:strings.LastIndex(name, "-")], AutomountServiceAccountToken: new(false),
				Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/main:1", Env: []corev1.EnvVar{{Name: "TEXT", Value: strings.Repeat("x", 1000)}}}}},
		}
		_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		// The server stops after a minute.
		var err error
		for range 10 {
			if err = kube.CoreV1().Pods(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))},
				metav1.ListOptions{LabelSelector: "app=" + prefix}); err == nil {
				return
			}
		}
		t.Error(err)
	})
	return names
}

// each calls do for all names, eight at a time.
func each(t *testing.T, names []string, do func(name string) error) {
	t.Helper()
	var group sync.WaitGroup
	for part := range slices.Chunk(names, max(1, (len(names)+7)/8)) {
		group.Go(func() {
			for _, name := range part {
				if err := do(name); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
