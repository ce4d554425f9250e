package usage

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/rig"
)

// A podexecd that is restarted while the API server is away continues: containers of API pods run on, and
// containers that end, also while podexecd is down, are started again, with services, objects and token.
func TestRestartedWhileAPIServerIsAway(t *testing.T) {
	machine := newMachine(t, "restarted-machine", here.BinDir())
	n := newNode(t, "restarted", func(n *node) { n.Machine = machine }, hurried)
	s := newSpace(t, n)
	o := observe(t, n)
	rig.Must(t, os.MkdirAll(n.Path("work"), 0o777))
	s.apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: set}}`)
	s.apply(t, `{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {selector: {app: db}, ports: [{port: 5432}]}}`)
	rig.Must(t, untilNil(t, "podexecd remembers the service", func() error {
		text, err := os.ReadFile(n.Path("podexecd", "cluster", "services.json"))
		if err != nil {
			return err
		}
		return when(strings.Contains(string(text), `"Namespace":"`+s.name+`","Name":"db"`))
	}))
	names := []string{"first", "second"}
	for _, name := range names {
		// Each start adds a line with its environment, and exits with 3 once a file with its number exists.
		script := fmt.Sprintf(`echo $DB_SERVICE_HOST:$DB_SERVICE_PORT $KUBERNETES_SERVICE_HOST $KEY $(cat /settings/key) \
$(cat /var/run/secrets/kubernetes.io/serviceaccount/token) >>/scratch/%[1]s
n=0; while read -r line; do n=$((n+1)); done </scratch/%[1]s
while [ ! -e /scratch/%[1]s.end$n ]; do /sample sleep 200ms; done; exit 3`, name)
		s.applyPod(t, name, toolsImage, shell(script)+`, env: [{name: KEY, valueFrom: {configMapKeyRef: {name: settings, key: key}}}],
volumeMounts: [{name: work, mountPath: /scratch}, {name: settings, mountPath: /settings}]`, fmt.Sprintf(
			"terminationGracePeriodSeconds: 1, volumes: [{name: work, hostPath: {path: %q}}, {name: settings, configMap: {name: settings}}]", n.Path("work")))
	}
	starts := func(name string) []string {
		t.Helper()
		text, err := os.ReadFile(n.Path("work", name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	}
	begun := func(name string, times int) {
		t.Helper()
		rig.Must(t, untilNil(t, fmt.Sprintf("pod %s has begun %d times", name, times), func() error { return when(len(starts(name)) == times) }))
	}
	shown := func(name string, restarts int32) {
		t.Helper()
		o.awaitShown(t, name, fmt.Sprintf("is ready after %d restarts", restarts), func(status *corev1.PodStatus) error {
			return when(status != nil && isTrue(status, corev1.PodReady) && status.ContainerStatuses[0].RestartCount == restarts)
		})
	}
	end := func(name string, start int) {
		t.Helper()
		n.write(t, fmt.Sprintf("work/%s.end%d", name, start), "")
	}
	containers := func() map[string]string {
		t.Helper()
		v := &view{}
		rig.Must(t, o.local(t.Context(), v))
		return v.ids(names...)
	}
	for _, name := range names {
		s.awaitReady(t, name)
		begun(name, 1)
		if fields := strings.Fields(starts(name)[0]); len(fields) != 5 || !strings.HasSuffix(fields[0], ":5432") || fields[2] != "set" || fields[3] != "set" {
			t.Errorf("pod %s finds %q", name, fields)
		}
	}
	before := containers()

	here.Plane.Kill()
	t.Cleanup(func() { rig.Get(here.Plane.Client(context.Background()))(t) }) // others need it, whatever becomes of this
	rig.Must(t, n.Podexecd.Stop())
	rig.Must(t, n.Podexecd.Start())
	for _, name := range names {
		shown(name, 0)
	}
	began := time.Now()
	end("first", 1)
	begun("first", 2)
	t.Logf("a container that ended was begun again after %v", time.Since(began).Round(time.Millisecond))
	shown("first", 1)
	shown("second", 0)
	if got := containers(); len(before) != 2 || got["second"] != before["second"] {
		t.Errorf("after the restart there are the containers %v; before it there were %v", got, before)
	}

	rig.Must(t, n.Podexecd.Stop())
	end("first", 2)
	end("second", 1)
	rig.Must(t, untilNil(t, "no container runs", func() error {
		v := &view{}
		var err error
		v.sandboxes, v.containers, err = o.runtime(t.Context())
		if err != nil {
			return err
		}
		return when(len(v.ids(names...)) == 0)
	}))
	began = time.Now()
	rig.Must(t, n.Podexecd.Start())
	begun("first", 3)
	begun("second", 2)
	t.Logf("containers that ended without podexecd were begun again %v after its start", time.Since(began).Round(time.Millisecond))
	shown("first", 2)
	shown("second", 1)
	before = containers()

	rig.Must(t, here.Plane.Resume(t.Context()))
	returned := time.Now()
	v, err := o.settled(t.Context(), time.Minute)
	rig.Must(t, err)
	t.Logf("the API server's statuses equal podexecd's %v after it is back", time.Since(returned).Round(time.Millisecond))
	rig.Must(t, n.AwaitReady(t.Context()))
	for name, restarts := range map[string]int32{"first": 2, "second": 1} {
		pod := s.awaitReady(t, name)
		if got := pod.Status.ContainerStatuses[0].RestartCount; got != restarts {
			t.Errorf("pod %s was restarted %d times by the API server; want %d", name, got, restarts)
		}
		lines := starts(name)
		for _, line := range lines {
			if line != lines[0] {
				t.Errorf("a restarted container of pod %s finds %q; want what the first one found, %q", name, line, lines[0])
			}
		}
	}
	if got := v.ids(names...); !maps.Equal(got, before) {
		t.Errorf("once the API server is back the containers are %v; want %v still", got, before)
	}
}
