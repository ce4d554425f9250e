package usage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

// moving is two nodes between which StatefulSets move with their claims.
type moving struct {
	*space
	from, to *node
}

// A StatefulSet moves with its claim from a node to another one, from there to a kubelet's node and back, and to the first node when the second
// one is powered off and has the taint out-of-service. By the driver's log, the volume is never staged on a node before it is unstaged on the
// other one, or that one is off. The judge of the log sees what goes wrong if the first node doesn't say that the volume is in use.
func TestMoved(t *testing.T) {
	t.Parallel()
	a := newNode(t, "moved-a", apart(t))
	b := newNode(t, "moved-b", apart(t))
	k := newNode(t, "moved-k", byKubelet(t))
	moved, planted := startNetworkDriver(t, "moved", a, b, k), startNetworkDriver(t, "planted", a, b)
	here.kubectl(t, "label", "node", a.Name, b.Name, k.Name, "podstream.test/moved=true")
	here.kubectl(t, "cordon", b.Name, k.Name)
	m := &moving{space: newSpaceOf(t, "podstream.test/moved=true", a), from: a, to: b}
	moved.deploy(t, m.space)
	planted.deploy(t, m.space)
	first := moved.awaitReadyOn(t, m.space, a, nil)
	planted.awaitReadyOn(t, m.space, a, nil)
	m.write(t, first)
	here.kubectl(t, "cordon", a.Name)
	here.kubectl(t, "uncordon", b.Name)

	var second *corev1.Pod
	t.Run("healthy", func(t *testing.T) { second = m.healthy(t, moved, first) })
	t.Run("planted", func(t *testing.T) { m.planted(t, planted) })
	if t.Failed() {
		return
	}
	for _, to := range []struct{ from, to *node }{{b, k}, {k, b}} {
		here.kubectl(t, "cordon", to.from.Name)
		here.kubectl(t, "uncordon", to.to.Name)
		t.Run(to.from.Name+" to "+to.to.Name, func(t *testing.T) { second = (&moving{m.space, to.from, to.to}).healthy(t, moved, second) })
		if t.Failed() {
			return
		}
	}
	here.kubectl(t, "uncordon", a.Name)
	t.Run("powered off", func(t *testing.T) { m.poweredOff(t, moved, second) })
}

// hold holds the next NodeUnstageVolume of the driver on the first node.
func (m *moving) hold(t *testing.T, d *networkDriver) (id int) {
	t.Helper()
	return rig.Get(d.on[m.from.Name].Faults.Add(t.Context(), fault.Fault{Method: "NodeUnstageVolume", Action: fault.Hold, Times: 1}))(t)
}

func (m *moving) awaitHeld(t *testing.T, d *networkDriver, id int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), control.Bound)
	defer cancel()
	rig.Must(t, d.on[m.from.Name].Faults.Await(ctx, id, 1))
}

// write has the pod write its UID to a file in the volume, and wrote checks that it is that of another pod.
func (m *moving) write(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	m.kubectl(t, "exec", pod.Name, "--", "sh", "-c", "echo "+string(pod.UID)+" > /data/file")
}

func (m *moving) wrote(t *testing.T, pod, other *corev1.Pod) {
	t.Helper()
	if got := strings.TrimSpace(m.kubectl(t, "exec", pod.Name, "--", "cat", "/data/file")); got != string(other.UID) {
		t.Errorf("after the move the file has %q; want %s", got, other.UID)
	}
}

// healthy moves the pod between healthy nodes. While the first one unstages the volume, the pod waits on the other one.
func (m *moving) healthy(t *testing.T, d *networkDriver, first *corev1.Pod) *corev1.Pod {
	before := len(d.of(t, "NodeStageVolume", "id-"+m.to.Name))
	id := m.hold(t, d)
	m.kubectl(t, "delete", "pod", first.Name, "--wait=false")
	m.awaitHeld(t, d, id)
	waiting := m.awaitPod(t, first.Name, "is scheduled to "+m.to.Name, func(pod *corev1.Pod) error {
		return when(pod.UID != first.UID && pod.Spec.NodeName == m.to.Name)
	})
	rig.Get(await(t.Context(), m.events(), "the attach-detach controller says that it waits", func(events map[string]*corev1.Event) error {
		for _, e := range events {
			// The second text is that of a controller that still knows the first pod.
			says := strings.Contains(e.Message, "already exclusively attached") || strings.Contains(e.Message, "Multi-Attach error")
			if e.InvolvedObject.UID == waiting.UID && e.Reason == "FailedAttachVolume" && says {
				return nil
			}
		}
		return errNone
	}))(t)
	if early := d.of(t, "NodeStageVolume", "id-"+m.to.Name); len(early) > before {
		t.Errorf("while the volume isn't unstaged on %s, there was %v", m.from.Name, early[before:])
	}
	rig.Must(t, d.on[m.from.Name].Faults.Release(t.Context(), id))
	second := d.awaitReadyOn(t, m.space, m.to, first)
	m.wrote(t, second, first)
	m.write(t, second)
	d.awaitAttachment(t, m.from, false)
	d.judge(t)
	return second
}

// planted moves the pod while the first node seems not to use the volume: the log shows that both nodes had it.
func (m *moving) planted(t *testing.T, d *networkDriver) {
	id := m.hold(t, d)
	m.kubectl(t, "delete", "pod", d.pod(), "--wait=false")
	m.awaitHeld(t, d, id)
	attachment := apivolumes.Attachment{Driver: d.csiName(), Handle: "volume"}.ObjectName(m.from.Name)
	rig.Must(t, untilNil(t, "the volume is being detached, although it is staged", func() error {
		// podexecd posts the true list again.
		_, err := here.Client.CoreV1().Nodes().Patch(t.Context(), m.from.Name, types.MergePatchType, []byte(`{"status":{"volumesInUse":null}}`),
			metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
		all, err := here.Client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, va := range all.Items {
			if va.Name == attachment && va.DeletionTimestamp == nil {
				return errNo
			}
		}
		return nil
	}))
	d.awaitReadyOn(t, m.space, m.to, nil)
	rig.Must(t, d.on[m.from.Name].Faults.Release(t.Context(), id))
	problems := calllog.Check(d.calls(t))
	t.Logf("the judge says: %q", problems)
	if len(problems) == 0 || !only(problems, "OneNode") {
		t.Errorf("the volume was staged on two nodes; the judge says %q", problems)
	}
	m.kubectl(t, "delete", "statefulset", d.name, "--cascade=foreground", timeout)
	d.awaitAttachment(t, m.to, false)
}

// poweredOff powers off the node to which the pod has moved. With the taint, the pod moves back.
func (m *moving) poweredOff(t *testing.T, d *networkDriver, second *corev1.Pod) {
	off := m.to
	rig.Must(t, off.Machine.PowerOff())
	d.on[off.Name].Kill()
	m.logOff(t, d)
	before := len(d.of(t, "ControllerUnpublishVolume", "controller"))
	rig.Get(await(t.Context(), here.nodes(), off.Name+" isn't ready", func(nodes map[string]*corev1.Node) error {
		c := nodeCondition(nodes[off.Name], corev1.NodeReady)
		return when(c != nil && c.Status == corev1.ConditionUnknown)
	}))(t)
	m.awaitPod(t, second.Name, "stays where it is", func(pod *corev1.Pod) error { return when(pod.UID == second.UID) })
	if got := d.of(t, "ControllerUnpublishVolume", "controller"); len(got) != before {
		t.Errorf("without the taint, there was %v", got[len(got)-1])
	}
	tainted := time.Now()
	here.kubectl(t, "taint", "node", off.Name, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
	third := d.awaitReadyOn(t, m.space, m.from, second)
	t.Logf("the pod is ready on the other node %v after the taint", time.Since(tainted).Round(time.Millisecond))
	m.wrote(t, third, second)
	d.judgeEnd(t, m.space)
	// The judge isn't blind: without the power cut, the second stage would have been wrong.
	if problems := calllog.OneNode(m.withoutOff(t, d)); len(problems) == 0 {
		t.Error("a volume that is staged on a second node isn't found")
	}
}

// logOff writes to the log that the node is off.
func (m *moving) logOff(t *testing.T, d *networkDriver) {
	t.Helper()
	log := rig.Get(calllog.Open(d.log))(t)
	defer log.Close()
	rig.Must(t, log.Write(&calllog.Record{Time: time.Now(), Event: calllog.Off, Driver: d.csiName(), Node: "id-" + m.to.Name}))
}

// withoutOff returns the calls as of a log without Off.
func (m *moving) withoutOff(t *testing.T, d *networkDriver) []*calllog.Call {
	t.Helper()
	var kept [][]byte
	off := fmt.Appendf(nil, `"event":%q`, calllog.Off)
	for line := range bytes.Lines(rig.Get(os.ReadFile(d.log))(t)) {
		if !bytes.Contains(line, off) {
			kept = append(kept, line)
		}
	}
	path := filepath.Join(t.TempDir(), "log")
	rig.Must(t, os.WriteFile(path, bytes.Join(kept, nil), 0o600))
	return rig.Get(calllog.Read(path))(t).Calls
}
