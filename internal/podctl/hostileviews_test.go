package podctl

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/hostiletext"
	"github.com/podstream/podstream/internal/podctl/hostiledaemon"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// hostileView is a command line whose output has text of a daemon, a file or the runtime.
type hostileView struct {
	// args are the command line. The name of the daemons' pods is web if it has that word.
	args string
	// refused is set for a command whose output is printed as it is: it is run with daemons that refuse only.
	refused bool
	// only has the names of the events that a stream sends, by its method. Nil: all.
	only map[string][]string
	// formats are the values of -o. Nil: the command has no -o.
	formats []string
	// prepare makes what the command reads, and returns further arguments.
	prepare func(*testing.T, *node) []string
	// until is the text on standard error after which the command is interrupted. Empty: it ends by itself.
	until string
	// silent is set if the command may print nothing when the daemons answer.
	silent bool
	// noted is set if the command prints what the daemons send as notes, on standard error.
	noted bool
	// outside is set if the command asks no daemon.
	outside bool
}

// documents are the formats of a command with tables.
var documents = []string{"table", "wide", "json", "yaml"}

// lists are the formats of a command with lists. The columns are two fields of an item.
func lists(columns string) []string {
	return append(slices.Clone(documents), "jsonpath={@}", "custom-columns="+columns)
}

// named are the formats of a command with lists of items that have names.
func namedLists(columns string) []string { return append(lists(columns), "name") }

// hostileViews has the command lines of each command. A new command needs a row: give it at least one for each of its
// views. What a command prints by design as it is (exec, attach, logs to a pipe, a profile) is left out by only and refused.
var hostileViews = map[string][]hostileView{
	"podctl apply": {
		{args: "apply --prune --allow-empty", formats: documents}, {args: "apply --prune --allow-empty --diff"},
		{args: "apply -f", prepare: hostileFiles, silent: true},
	},
	"podctl attach":                 {{args: "attach -it web", only: map[string][]string{"Attach": {"defaulted", "opened"}}, silent: true}},
	"podctl config current-context": {{args: "config current-context", prepare: hostileContexts, outside: true}},
	"podctl config get-contexts": {
		{args: "config get-contexts", formats: namedLists("A:.podexecEndpoint,B:.tlsServerName"), prepare: hostileContexts, outside: true},
	},
	"podctl config use-context": {
		{args: "config use-context hostile", prepare: hostileContexts, outside: true},
		{args: "config use-context a\x1b[2J", prepare: hostileContexts, outside: true, silent: true},
	},
	"podctl config view": {{args: "config view", formats: documents, prepare: hostileContexts, outside: true}},
	"podctl consumers":   {{args: "consumers", formats: namedLists("A:.name,B:.peer")}},
	"podctl cp": {
		{args: "cp -c web web:/etc/app.conf", prepare: hostileFile, silent: true},
		{args: "cp -c web web:/etc/app.conf ./there/isnt", silent: true}, {args: "cp -c web ./doc.go web:/tmp", silent: true},
	},
	"podctl describe": {{args: "describe web"}},
	"podctl delete":   {{args: "delete web", formats: documents}, {args: "delete -f", prepare: hostileManifest, outside: true, silent: true}},
	"podctl diff": {
		{args: "diff --at /etc/web.yaml -", formats: documents},
		{args: "diff", prepare: hostileFiles, silent: true},
	},
	"podctl doctor": {{args: "doctor -- --container-runtime-endpoint=unix:///nonexistent", formats: documents}},
	"podctl edit":   {{args: "edit", prepare: hostileEditor("pod/web")}, {args: "edit", prepare: hostileEditor("web"), silent: true}},
	"podctl events": {
		{args: "events", formats: lists("A:.reason,B:.message")}, {args: "events -w", formats: lists("A:.reason,B:.message")}, {args: "events web"},
	},
	"podctl exec": {{args: "exec web -- sh", only: map[string][]string{"Exec": {"defaulted"}}, silent: true}},
	"podctl get": {
		{args: "get pods", formats: namedLists("A:.metadata.name,B:.metadata.annotations")}, {args: "get pod/web", formats: documents[:3]},
		{args: "get pods --show-labels"}, {args: "get pods -w"}, {args: "get events", formats: lists("A:.reason,B:.message")},
		{args: "get events -w", formats: documents}, {args: "get sources"}, {args: "get consumers"},
	},
	"podctl images":      {{args: "images", formats: lists("A:.tags,B:.id")}},
	"podctl images list": {{args: "images list", formats: documents}},
	"podctl images pull": {
		{args: "images pull web", formats: documents}, {args: "images pull a\x1b[2J", silent: true},
	},
	"podctl images prune": {{args: "images prune --all --yes", formats: documents}, {args: "images prune --dry-run"}},
	"podctl logs":         {{args: "logs web", refused: true}},
	"podctl migrate":      {{args: "migrate", formats: documents, prepare: hostileNode, outside: true}},
	"podctl objects":      {{args: "objects", formats: documents}, {args: "objects -w", formats: []string{"table", "json"}}},
	"podctl pods": {
		{args: "pods", formats: namedLists("A:.name,B:.message")}, {args: "pods -w", formats: documents[:3]}, {args: "pods web"}, {args: "pods --no-headers"},
	},
	"podctl port-forward": {{args: "port-forward web :80", silent: true}},
	"podctl profile":      {{args: "profile", refused: true}},
	"podctl ps": {
		{args: "ps -a", formats: namedLists("A:.name,B:.message")}, {args: "ps -aq --no-trunc"}, {args: "ps -a web"},
	},
	"podctl record":         {{args: "record --format json -"}, {args: "record --format reference", prepare: hostileFile, silent: true}},
	"podctl replay":         {{args: "replay", prepare: hostileRecording, until: "grpcurl", outside: true, silent: true}},
	"podctl restart":        {{args: "restart web"}, {args: "restart web -c app --wait", refused: true}},
	"podctl sources":        {{args: "sources", formats: namedLists("A:.name,B:.findings")}},
	"podctl sources accept": {{args: "sources accept file", formats: documents}},
	"podctl top node":       {{args: "top node", formats: documents}},
	"podctl top pods":       {{args: "top pods", formats: lists("A:.ref,B:.containers")}, {args: "top pods --containers"}},
	"podctl version":        {{args: "version", formats: documents}},
	"podctl volumes":        {{args: "volumes", formats: namedLists("A:.name,B:.path")}},
	"podctl volumes list":   {{args: "volumes list", formats: documents}},
	"podctl volumes rm":     {{args: "volumes rm --yes data", noted: true}, {args: "volumes rm --yes a\x1b[2J/b", noted: true}},
	"podctl volumes export": {
		{args: "volumes export data", only: map[string][]string{"ExportVolume": {"end"}}, noted: true},
	},
	"podctl volumes import": {{args: "volumes import data /dev/null", noted: true}, {args: "volumes import data ./there/isnt\x1b[2J", silent: true}},
	"podctl wait": {
		{args: "wait web --for=condition=Ready --timeout=0", silent: true}, {args: "wait web --for=create --timeout=0", silent: true},
		{args: "wait web --for=jsonpath={.status.message}=x --timeout=0", silent: true},
	},
	"podctl watch": {{args: "watch", formats: documents}, {args: "watch --heartbeats"}},
	"podctl web":   {{args: "web", until: "file://", outside: true, silent: true}},
}

// hostileFiles is a directory of manifests with hostile names.
func hostileFiles(t *testing.T, n *node) []string {
	t.Helper()
	dir := filepath.Join(n.dir, "files")
	for _, s := range hostiletext.Strings() {
		name := strings.NewReplacer("/", "_", "\x00", "_").Replace(s) + ".yaml"
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return []string{dir}
}

// hostileManifest is a manifest with hostile text in place of the kind.
func hostileManifest(t *testing.T, n *node) []string {
	t.Helper()
	path := filepath.Join(n.dir, "manifest.yaml")
	kind := strconv.QuoteToASCII(strings.Join(hostiletext.Strings(), " "))
	if err := os.WriteFile(path, []byte("{apiVersion: v1, kind: "+kind+", metadata: {name: web}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// hostileEditor is an editor that changes the document of a pod.
func hostileEditor(pod string) func(*testing.T, *node) []string {
	return func(_ *testing.T, n *node) []string {
		n.editWith(`echo changed > "$1"`)
		return []string{pod}
	}
}

// hostileContexts is a podctl.yaml with hostile text in each field that isn't a name.
func hostileContexts(t *testing.T, _ *node) []string {
	t.Helper()
	text := strconv.QuoteToASCII("/" + strings.ReplaceAll(strings.Join(hostiletext.Strings(), " "), "://", ":")) // YAML has Go's escapes.
	return []string{"--config", podctlYAML(t, "apiVersion: podstream.io/v1alpha1\nkind: PodctlConfig\ncurrentContext: hostile\n"+
		strings.ReplaceAll("credentials: [{name: ops, certFile: TEXT, keyFile: TEXT, caFile: TEXT}]\n"+
			"contexts: [{name: hostile, podconfigEndpoint: TEXT, podexecEndpoint: TEXT, tlsServerName: TEXT, credentials: ops}]\n", "TEXT", text), 0o600)}
}

// hostileFile is a file that can't be written.
func hostileFile(_ *testing.T, n *node) []string {
	return []string{filepath.Join(n.dir, podctltest.Hostile, podctltest.Hostile)}
}

// hostileNode has pods, sandboxes and containers with hostile names, and the flags for it.
func hostileNode(t *testing.T, n *node) []string {
	t.Helper()
	k := newKubeletNode(t)
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for texts := range slices.Chunk(hostiletext.Strings(), 25) {
		for i := range texts {
			texts[i] = strings.ToValidUTF8(texts[i], "")
		}
		pod := hostiledaemon.Pod(texts...)
		pod.Spec.NodeName = "node1"
		list.Items = append(list.Items, *pod)
	}
	all := strings.ToValidUTF8(strings.Join(hostiletext.Strings(), " "), "")
	list.Items = append(list.Items, corev1.Pod{ // It has a sandbox, and a volume that podexecd doesn't support.
		ObjectMeta: metav1.ObjectMeta{Namespace: all, Name: all, UID: webUID},
		Spec: corev1.PodSpec{
			NodeName: "node1", Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}},
			Containers: []corev1.Container{{Name: "app", Image: "localhost/sample:1", VolumeMounts: []corev1.VolumeMount{{Name: "v"}}}},
		},
	})
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	n.stdin = string(text)
	return append(k.flags[1:], "--pods", "-")
}

// hostileRecording is a recording with hostile text in its header and its messages.
func hostileRecording(t *testing.T, n *node) []string {
	t.Helper()
	all := strings.ToValidUTF8(strings.Join(hostiletext.Strings(), " "), "")
	file := filepath.Join(n.dir, "\x1b[2J\u202e.jsonl")
	w, err := recording.Create(recording.FileConfig{Path: file, Header: recording.Header{
		Endpoint: all, Podctl: all, Request: &podconfigv1.WatchPodUpdatesRequest{Consumer: all, Format: podconfigv1.PodFormat_POD_FORMAT_JSON},
	}})
	if err == nil {
		err = errors.Join(w.Write(0, op(1, opAdd, jsonPod(t, "file", "default", "x"+podctltest.Hostile))), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{file, "--listen", "unix://" + n.socket("replay\x1b[2J")}
}
