package hazards

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// patience bounds every wait; the machine may be slow and busy.
const patience = 45 * time.Second

// nodeName is the node's name, and so the suffix of its static pods' names.
const nodeName = "n"

// commands are the commands of a scenario. $DIR is the scenario's directory and $URL its HTTP server; all paths
// are in $DIR. In the content of a file, a line "pod NAME VERSION [ARG ...]" stands for a small manifest: its
// container's image has that version as its tag, and runs the simulated program with the ARGs. Without ARGs it
// sleeps.
//
// "..." in the expected output matches anything. Pods are shown as SOURCE NAMESPACE/NAME, a letter and number
// that stand for the UID, and the version.
var commands = map[string]func(*scenario, *datadriven.TestData) string{
	// Files. write writes in place, and place renames a file within the directory. begin, continue and end are
	// a slow writer.
	"write": write, "place": place, "begin": begin, "continue": carryOn, "end": end,
	"remove": remove, "rename": rename, "mkdir": mkdir,
	// symlink TARGET PATH makes a link, or switches it in one step.
	"symlink": symlink,
	// serve PATH [status=N] [etag=E] [type=T] sets the response of $URL/PATH; requests shows the last request
	// for it.
	"serve": serve, "requests": requests,
	// The API server, whose kubeconfig is $KUBECONFIG. api up|down starts and stops it; api-pod NAME VERSION
	// creates a pod of this node there.
	"api": api, "api-pod": putAPIPod, "api-delete": deleteAPIPod,
	// Daemons. start takes flags, one on each line, in place of the manifest path $DIR/manifests; without flags
	// it uses those of the last start. It returns when every source has been read, and the consumer of ops has
	// resumed. kill is kill -9; reboot kills both daemons, the runtime and all containers.
	"start": start, "stop": stop, "kill": kill, "reboot": reboot,
	// ops are the revisions since the last ops, one on each line. quiet checks that there are none.
	"ops": ops, "quiet": quiet,
	// fresh [mode=M] is the initial state that a new consumer receives.
	"fresh": fresh,
	// podconfigd's answers: ListPods, ListSources, DiffManifests of content at a path.
	"pods": pods, "sources": sources, "diff": diff,
	// objects is the initial state that a new consumer of WatchObjects receives.
	"objects": objects,
	// stall NAME starts a consumer that reads the initial state and then stops; resume NAME makes it read the
	// rest. churn PATH times=N kib=N makes that many changes, each when the previous one has arrived. consumers
	// NAME is the state of that consumer.
	"stall": stall, "resume": resume, "churn": churn, "consumers": consumers,
	// crowd DIRECTORY pods=N kib=N writes that many manifests of that size. list and snapshot mode=M read all
	// of them, as a client does that has no limit except gRPC's own.
	"crowd": crowd, "list": list, "snapshot": snapshot,
	// ported-crowd DIRECTORY pods=N ports=N writes that many manifests, each with a container of that many
	// ports.
	"ported-crowd": portedCrowd,
	// running is what podexecd reports of its pods, with a number for each container's ID. containers is what
	// the runtime has.
	"running": running, "containers": containers,
	// finish NAME ends the container of that name, as if its program had exited.
	"finish": finish,
	// inside NAME COMMAND... makes the sample program run that command in the container of that name, and shows
	// the output.
	"inside": inside,
}

// TestHazards runs all scenarios.
func TestHazards(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newScenario(t)
			datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string { return s.run(d) })
		})
	}
}

// scenario is the state of one file's run.
type scenario struct {
	t    testing.TB
	dir  string
	node *devnode.Node
	// daemons are the daemons that were started, by name.
	daemons map[string]*devnode.Process
	config  podconfigv1.PodConfigServiceClient
	exec    podexecv1.PodExecServiceClient
	viewer  *viewer
	writers map[string]*writer
	stalled map[string]*stalled
	web     *web
	api     *apitest.Server
	// kubeconfig is the path of the API server's kubeconfig.
	kubeconfig string
	// names are the names of the pods' UIDs and the containers' IDs.
	names names
}

func newScenario(t testing.TB) *scenario {
	t.Helper()
	s := &scenario{
		t: t, dir: t.TempDir(), daemons: map[string]*devnode.Process{}, writers: map[string]*writer{}, stalled: map[string]*stalled{},
		names: names{},
	}
	node, err := devnode.Start(t.Context(), devnode.Config{Dir: t.TempDir(), Runtime: devnode.Sim, BinDir: binDir})
	if err != nil {
		t.Fatal(err)
	}
	s.node = node
	t.Cleanup(func() {
		for _, name := range []string{podconfigd, podexecd} {
			if p := s.daemons[name]; p != nil && t.Failed() {
				t.Logf("%s ends with:\n%s", name, p.LogTail())
			}
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	s.web = newWeb(t)
	s.api = apitest.New(t, apitest.Config{})
	s.kubeconfig = s.api.Kubeconfig(apitest.Identity{})
	s.config = podconfigv1.NewPodConfigServiceClient(dial(t, s.endpoint(podconfigd)))
	s.exec = podexecv1.NewPodExecServiceClient(dial(t, s.endpoint(podexecd)))
	s.viewer = newViewer(t, s.config, &s.names)
	s.check(mkdirAll(s.path("manifests")))
	return s
}

// run runs one command. It returns d.Expected if the result matches it.
func (s *scenario) run(d *datadriven.TestData) string {
	s.t.Helper()
	command, ok := commands[d.Cmd]
	if !ok {
		d.Fatalf(s.t, "the command %q isn't known", d.Cmd)
	}
	d.Input = s.expand(d.Input)
	for i := range d.CmdArgs {
		d.CmdArgs[i].Key = s.expand(d.CmdArgs[i].Key)
	}
	got, names := s.names.show(command(s, d))
	s.names = names
	if !d.Rewrite && matches(d.Expected, got) {
		return d.Expected
	}
	return got
}

func (s *scenario) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scenario) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

// arg returns the nth argument of a command, which is required.
func (s *scenario) arg(d *datadriven.TestData, n int) string {
	s.t.Helper()
	if n >= len(d.CmdArgs) {
		d.Fatalf(s.t, "%s takes %d arguments", d.Cmd, n+1)
	}
	return d.CmdArgs[n].Key
}

// mode returns the notification mode in the command's mode=NAME, or the default.
func (s *scenario) mode(d *datadriven.TestData) podconfigv1.NotificationMode {
	var name string
	if !d.MaybeScanArgs(s.t, "mode", &name) {
		return podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED
	}
	mode, ok := podconfigv1.NotificationMode_value["NOTIFICATION_MODE_"+name]
	if !ok {
		d.Fatalf(s.t, "the mode %q isn't known", name)
	}
	return podconfigv1.NotificationMode(mode)
}

func (s *scenario) expand(text string) string {
	return strings.NewReplacer("$DIR", s.dir, "$URL", s.web.URL, "$KUBECONFIG", s.kubeconfig).Replace(text)
}

// shorten is the reverse of expand.
func (s *scenario) shorten(text string) string {
	return strings.NewReplacer(s.dir, "$DIR", s.web.URL, "$URL", s.api.URL(), "$API").Replace(text)
}

// until polls until the answer is the expected one. It returns the last answer.
func (s *scenario) until(d *datadriven.TestData, ask func() (string, error)) string {
	s.t.Helper()
	if d.Rewrite {
		s.settle()
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		got, err := ask()
		if err != nil {
			got = fmt.Sprintf("error: %v\n", err)
		}
		got = s.shorten(got)
		if shown, _ := s.names.show(got); d.Rewrite || matches(d.Expected, shown) {
			return got
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return got
		}
	}
}

// matches compares line by line; "..." matches anything.
func matches(want, got string) bool {
	w, g := lines(want), lines(got)
	if len(w) != len(g) {
		return false
	}
	for i := range w {
		if !matchesLine(w[i], g[i]) {
			return false
		}
	}
	return true
}

func matchesLine(want, got string) bool {
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

// lines returns the lines of the text, without the last newline.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
