package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

// mortalDriver is a CSI driver in a process of its own.
type mortalDriver struct {
	victim  victim
	options csidriver.Options
	process *control.Process
	// ends are its next deaths. armed is the one that this process meets.
	ends  []ending
	armed *ending
	// killers kill it in calls.
	killers sync.WaitGroup
}

// startDriverProcess starts a driver, with its next death.
func (m *mortal) startDriverProcess(t *testing.T, d *mortalDriver) {
	t.Helper()
	if d.armed == nil && len(d.ends) > 0 {
		d.armed, d.ends = &d.ends[0], d.ends[1:]
	}
	o := &d.options
	args := []string{
		"--name", o.Name, "--node-id", o.NodeID, "--dir", o.Dir, "--backing", string(o.Backing), "--endpoint", o.Endpoint,
		"--registration", o.Registration, "--control", m.control(d), fmt.Sprintf("--attach-required=%t", o.AttachRequired),
	}
	if d.armed != nil {
		args = append(args, "--faults", string(rig.Get(json.Marshal([]fault.Fault{d.armed.fault()}))(t)))
	}
	d.process = rig.Get(control.StartProcess(string(d.victim), m.path("drivers.log"), filepath.Join(m.programs, "csidriverd"), args...))(t)
	if d.armed != nil && d.armed.moment == inCall {
		process, delay := d.process, d.armed.delay
		d.killers.Go(func() { killHeld(process, m.control(d), delay) })
	}
}

func (m *mortal) control(d *mortalDriver) string {
	return m.path(filepath.Base(d.options.Dir) + ".ctl")
}

// killHeld waits until a call is held, lets it act, and kills the driver a moment later.
func killHeld(process *control.Process, socket string, delay time.Duration) {
	const id = 1 // of the only fault
	client := fault.NewClient(socket)
	defer client.Close()
	for client.Await(context.Background(), id, 1) != nil {
		if process.Ended() {
			return
		}
		time.Sleep(10 * time.Millisecond) // It doesn't listen yet.
	}
	if client.Release(context.Background(), id) == nil {
		time.Sleep(delay) // The moment is what is random.
	}
	process.Kill()
}

// startAgent starts podexecd, with its next point.
func (m *mortal) startAgent(t *testing.T) {
	t.Helper()
	if m.armed == "" && len(m.points) > 0 {
		m.armed, m.points = m.points[0], m.points[1:]
	}
	if m.armed != "" {
		m.startExec(t, failpoint.DieAt+"="+string(m.armed))
	} else {
		m.startExec(t)
	}
}

// revive starts what has died at a point, and reports whether anything had.
func (m *mortal) revive(t *testing.T) (did bool) {
	t.Helper()
	if m.podexecd.Ended() {
		if tail := m.podexecd.Tail(); m.armed == "" || !strings.Contains(tail, "failpoint: dying at "+string(m.armed)) {
			t.Fatalf("podexecd has ended, and should have died at %q; its output ends with:\n%s", m.armed, tail)
		}
		m.count.count("podexecd at " + string(m.armed))
		m.armed, did = "", true
		m.startAgent(t)
	}
	for _, d := range m.mortals {
		if !d.process.Ended() {
			continue
		}
		if d.armed == nil {
			t.Fatalf("%s has ended; its output ends with:\n%s", d.victim, d.process.Tail())
		}
		m.count.count(d.armed.String())
		d.armed, did = nil, true
		m.startDriverProcess(t, d)
	}
	if m.cri != nil {
		_, err := m.cri.pending()
		rig.Must(t, err)
	}
	return did
}

// kill kills a victim now, and starts it again.
func (m *mortal) kill(t *testing.T, v victim) {
	t.Helper()
	m.revive(t)
	switch v {
	case victimAgent:
		m.podexecd.Kill()
		m.count.count(string(v))
		m.startAgent(t)
	case victimRuntime:
		rig.Must(t, m.killRuntime(string(v)))
	default:
		d := m.mortals[slices.IndexFunc(m.mortals, func(d *mortalDriver) bool { return d.victim == v })]
		d.process.Kill()
		m.count.count(string(v))
		m.startDriverProcess(t, d)
	}
}

// killRuntime kills containerd and starts it again.
func (m *mortal) killRuntime(what string) error {
	m.dying.Lock()
	defer m.dying.Unlock()
	m.count.count(what)
	if err := m.machine.Runtime().Kill(); err != nil {
		return err
	}
	return m.machine.Runtime().Start()
}

// anyVictim chooses a victim. podexecd is chosen most often.
func (m *mortal) anyVictim() victim {
	n := 7
	if m.machine == nil {
		n = 5
	}
	switch n = m.chance.IntN(n); {
	case n < 3:
		return victimAgent
	case n == 3:
		return victimDirs
	case n == 4:
		return victimImages
	default:
		return victimRuntime
	}
}

// plan adds a death at a certain point.
func (m *mortal) plan(e ending) {
	switch e.victim {
	case victimAgent:
		m.points = append(m.points, e.point)
	case victimRuntime:
		m.cri.add(e)
	default:
		d := m.mortals[slices.IndexFunc(m.mortals, func(d *mortalDriver) bool { return d.victim == e.victim })]
		d.ends = append(d.ends, e)
	}
}

// planned returns what has yet to die at certain points.
func (m *mortal) planned() (all []string) {
	if m.armed != "" {
		all = append(all, string(m.armed))
	}
	for _, p := range m.points {
		all = append(all, string(p))
	}
	for _, d := range m.mortals {
		if d.armed != nil {
			all = append(all, d.armed.String())
		}
		for _, e := range d.ends {
			all = append(all, e.String())
		}
	}
	if m.cri != nil {
		if n, _ := m.cri.pending(); n > 0 {
			all = append(all, fmt.Sprintf("%d of containerd", n))
		}
	}
	return all
}

// spare starts all victims without a death to come.
func (m *mortal) spare(t *testing.T) {
	t.Helper()
	m.revive(t)
	m.strikes, m.points = nil, nil
	if m.cri != nil {
		m.cri.spare()
		m.cri.killers.Wait()
	}
	if m.armed != "" {
		m.podexecd.Kill()
		m.armed = ""
		m.startAgent(t)
	}
	for _, d := range m.mortals {
		d.ends = nil
		if d.armed != nil {
			d.process.Kill()
			d.armed = nil
			m.startDriverProcess(t, d)
		}
	}
}
