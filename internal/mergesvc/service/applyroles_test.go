package service_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// podWith returns the manifest of a pod of the namespace shop, with more metadata and spec.
func podWith(name, metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %q, namespace: shop%s}, spec: {containers: [{name: main, image: i%s}]%s}}\n",
		name, metadata, containerPart(spec), podPart(spec))
}

// A spec that begins with a bracket is the container's.
func containerPart(spec string) string {
	if rest, ok := strings.CutPrefix(spec, "["); ok {
		return ", " + strings.TrimSuffix(rest, "]")
	}
	return ""
}

func podPart(spec string) string {
	if spec == "" || strings.HasPrefix(spec, "[") {
		return ""
	}
	return ", " + spec
}

// hiddenPod is a pod of a namespace that no deployer has.
var hiddenPod = strings.Replace(podWith("hidden", "", ""), "namespace: shop", "namespace: kube-system", 1)

// aliasedPod has its namespace by a merge key, whose anchor is in a label of a harmless one.
const aliasedPod = `apiVersion: v1
kind: Pod
metadata:
  labels: &hidden {namespace: kube-system}
  name: aliased
  <<: *hidden
spec: {containers: [{name: main, image: i}]}
`

// laughs has 2^30 elements by aliases of aliases.
var laughs = func() string {
	text := "a0: &a0 [x, x]\n"
	for i := range 30 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: laughs, namespace: shop}\n" + text
}()

// doubled returns a pod in whose text one part is replaced.
func doubled(part, by string) string { return strings.Replace(podWith("doubled", "", ""), part, by, 1) }

// listOf returns a List of documents in YAML's flow style.
func listOf(items ...string) string {
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return "{apiVersion: v1, kind: List, items: [" + strings.Join(items, ", ") + "]}\n"
}

// many returns that many ConfigMaps.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d, namespace: shop}}\n", i)
	}
	return b.String()
}

// TestWhoMayWhat is the table of roles: each write by each caller, and the code that it gets. Each caller has a good write as
// its control. Nothing of a refused write is stored or published.
func TestWhoMayWhat(t *testing.T) {
	level := func(l access.PodSecurity) func(*access.Writes) {
		return func(w *access.Writes) { w.PodSecurity = l }
	}
	reader := func(role access.Role) access.Caller {
		return access.Caller{Identity: role.String(), Peer: role.String(), Role: role}
	}
	both := deployer("both")
	both.Role, both.Sources = access.Operator, nil
	callers := []struct {
		name string
		who  access.Caller
	}{
		{"root", access.Caller{Identity: "uid:0", Peer: "uid:0", Role: access.Operator, Writes: &access.Writes{Everything: true, PodSecurity: access.Privileged}}},
		{"privileged", deployer("privileged", level(access.Privileged))}, {"baseline", deployer("baseline")},
		{"restricted", deployer("restricted", level(access.Restricted))}, {"both", both},
		{"operator", reader(access.Operator)}, {"consumer", reader(access.Consumer)}, {"inspector", reader(access.Inspector)}, {"none", reader(access.None)},
	}
	const (
		ok       = codes.OK
		denied   = codes.PermissionDenied
		invalid  = codes.InvalidArgument
		exists   = codes.AlreadyExists
		overflow = codes.ResourceExhausted
	)
	strict := func(name string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop}, spec: {securityContext: {runAsNonRoot: true, "+
			"seccompProfile: {type: RuntimeDefault}}, containers: [{name: main, image: i, securityContext: {allowPrivilegeEscalation: false, "+
			"capabilities: {drop: [ALL]}}}]}}\n", name)
	}
	w := startWritable(t, manifestOf("file", "v1"))
	// The codes are those of root, privileged, baseline, restricted and both. All other callers are denied everything.
	for _, row := range []struct {
		name, text string
		want       [5]codes.Code
	}{
		{"a restricted pod", strict("s"), [5]codes.Code{ok, ok, ok, ok, ok}},
		{"a baseline pod", podWith("b", "", ""), [5]codes.Code{ok, ok, ok, denied, ok}},
		{"a privileged pod", podWith("p", "", "[securityContext: {privileged: true}]"), [5]codes.Code{ok, ok, denied, denied, denied}},
		{"hostPath", podWith("h", "", "volumes: [{name: v, hostPath: {path: /}}]"), [5]codes.Code{ok, ok, denied, denied, denied}},
		{"hostNetwork", podWith("n", "", "hostNetwork: true"), [5]codes.Code{ok, ok, denied, denied, denied}},
		{"a system class", podWith("c", "", "priorityClassName: system-node-critical"), [5]codes.Code{ok, denied, denied, denied, denied}},
		{"a priority", podWith("q", "", "priority: 1000000000"), [5]codes.Code{ok, denied, denied, denied, denied}},
		{"a foreign namespace", strings.Replace(strict("f"), "namespace: shop", "namespace: kube-system", 1), [5]codes.Code{ok, denied, denied, denied, denied}},
		{"a foreign ConfigMap", "{apiVersion: v1, kind: ConfigMap, metadata: {name: f, namespace: kube-system}}", [5]codes.Code{ok, denied, denied, denied, denied}},
		{"a Secret", "{apiVersion: v1, kind: Secret, metadata: {name: f, namespace: shop}}", [5]codes.Code{ok, ok, ok, ok, ok}},
		{"a path for a name", podWith("../../../etc/cron.d/x", "", ""), [5]codes.Code{invalid, invalid, invalid, invalid, invalid}},
		{"a path for a namespace", strings.Replace(strict("f"), "namespace: shop", "namespace: ../x", 1), [5]codes.Code{invalid, invalid, invalid, invalid, invalid}},
		{"a UID", podWith("u", ", uid: some", ""), [5]codes.Code{ok, invalid, invalid, invalid, invalid}},
		{"a mirror annotation", podWith("m", ", annotations: {kubernetes.io/config.mirror: x}", ""), [5]codes.Code{ok, invalid, invalid, invalid, invalid}},
		{"a source annotation", podWith("m", ", annotations: {kubernetes.io/config.source: api}", ""), [5]codes.Code{ok, invalid, invalid, invalid, invalid}},
		{"an owner's annotation", podWith("m", ", annotations: {podstream.io/applied-by: 'uid:0'}", ""), [5]codes.Code{ok, invalid, invalid, invalid, invalid}},
		{"a pod in a List", listOf(podWith("l", "", ""), hiddenPod), [5]codes.Code{invalid, invalid, invalid, invalid, invalid}},
		{"a foreign namespace after a good document", strict("a") + "---\n" + hiddenPod, [5]codes.Code{ok, denied, denied, denied, denied}},
		{"a foreign namespace by an alias", aliasedPod, [5]codes.Code{ok, denied, denied, denied, denied}},
		{"a foreign namespace by a doubled key", doubled("namespace: shop", "namespace: shop, namespace: kube-system"), [5]codes.Code{ok, denied, denied, denied, denied}},
		{"privileged by a doubled key", doubled("image: i", "image: i, securityContext: {privileged: false}, securityContext: {privileged: true}"),
			[5]codes.Code{ok, ok, denied, denied, denied}},
		{"a foreign kind by a doubled key", doubled("kind: Pod", "kind: Pod, kind: Node"), [5]codes.Code{invalid, invalid, invalid, invalid, invalid}},
		{"aliases that expand", laughs, [5]codes.Code{invalid, invalid, invalid, invalid, invalid}},
		{"an ephemeral container", podWith("e", "", "ephemeralContainers: [{name: e, image: i, securityContext: {privileged: true}}]"),
			[5]codes.Code{invalid, invalid, invalid, invalid, invalid}},
		{"a privileged init container", podWith("i", "", "initContainers: [{name: e, image: i, securityContext: {privileged: true}}]"),
			[5]codes.Code{ok, ok, denied, denied, denied}},
		{"another system's pod", podWith("w", "", "os: {name: windows}"), [5]codes.Code{ok, ok, denied, denied, denied}},
		{"a hash annotation", podWith("m", ", annotations: {kubernetes.io/config.hash: x}", ""), [5]codes.Code{ok, invalid, invalid, invalid, invalid}},
		{"a pod of a file", strings.Replace(strict("file"), "namespace: shop", "namespace: default", 1), [5]codes.Code{exists, exists, exists, exists, exists}},
		{"a pod of another deployer", strings.Replace(strict("taken"), "namespace: shop", "namespace: default", 1), [5]codes.Code{ok, exists, exists, exists, exists}},
		{"21 pods", severalPods(21), [5]codes.Code{ok, overflow, overflow, overflow, overflow}},
		{"20 pods", severalPods(20), [5]codes.Code{ok, ok, ok, denied, ok}},
		{"more than 1 MiB", "# " + strings.Repeat("x", 1<<20) + "\n" + strict("large"), [5]codes.Code{ok, overflow, overflow, overflow, overflow}},
	} {
		// Each row has callers of its own, so that none of them reaches its rate.
		own := func(c access.Caller) *node {
			c.Identity += "-" + strings.ReplaceAll(row.name, " ", "-")
			return w.as(c)
		}
		other := own(deployer("other"))
		mustApply(other, manifestOf("taken", "v1"))
		for i, c := range callers {
			want := denied
			if i < len(row.want) {
				want = row.want[i]
			}
			n, check := own(c.who), w.unchanged()
			_, err := applyTo(n, row.text, dryRun)
			if got := status.Code(err); got != want {
				t.Errorf("%s, %s: a dry run has %v, %v; want %v, as the write", row.name, c.name, got, err, want)
			}
			check(row.name + ", " + c.name + ": a dry run")
			resp, err := applyTo(n, row.text)
			if got := status.Code(err); got != want {
				t.Errorf("%s, %s: apply has %v, %v; want %v", row.name, c.name, got, err, want)
			}
			if err != nil {
				check(row.name + ", " + c.name + ": apply")
				continue
			}
			if len(resp.GetResults()) == 0 {
				t.Errorf("%s, %s: no results", row.name, c.name)
			}
			for _, r := range resp.GetResults() {
				w.remove(r.GetRef())
			}
			mustApply(other, manifestOf("taken", "v1"))
		}
		w.remove(&podconfigv1.ManifestRef{Name: "taken"})
	}
}

// TestTenThousandDocuments: 10,000 documents are one write, and the source takes no more.
func TestTenThousandDocuments(t *testing.T) {
	w := startWritable(t)
	n := w.node
	_, err := applyTo(n, many(10_001))
	wantCode(t, "10,001 documents", err, codes.ResourceExhausted)
	if resp := mustApply(n, many(10_000)); len(resp.GetResults()) != 10_000 {
		t.Errorf("%d results; want 10,000", len(resp.GetResults()))
	}
	check := w.unchanged()
	_, err = applyTo(w.node, manifestOf("more", "v1"))
	wantCode(t, "one document more", err, codes.ResourceExhausted)
	check("one document more")
	listed := 0
	for req := (&podconfigv1.ListManifestsRequest{}); ; {
		resp, err := n.api.ListManifests(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(resp); size > 5<<20/4 {
			t.Errorf("a page of the list has %d bytes; want about 1 MiB at most", size)
		}
		listed += len(resp.GetManifests())
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if listed != 10_000 {
		t.Errorf("the pages have %d documents; want 10,000", listed)
	}
	if resp := mustApply(n, many(1), prune); len(resp.GetResults()) != 10_000 {
		t.Errorf("prune has %d results; want 10,000", len(resp.GetResults()))
	}
	mustApply(w.node, manifestOf("more", "v1"))
}

// severalPods returns that many pods.
func severalPods(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("---\n" + podWith(fmt.Sprint("p", i), "", ""))
	}
	return b.String()
}

// TestWhoMayDelete: a caller removes what it has applied, and root removes everything. To a deployer, the pods of others and of
// other sources don't exist. A caller without the right to write removes nothing, whatever its role is.
func TestWhoMayDelete(t *testing.T) {
	w := startWritable(t, manifestOf("file", "v1"))
	alice, bob := w.as(deployer("alice")), w.as(deployer("bob"))
	seeing := deployer("seeing")
	seeing.Role, seeing.Sources = access.Inspector, nil
	mustApply(alice, manifestOf("a", "v1"))
	mustApply(bob, manifestOf("b", "v1"))
	for _, tc := range []struct {
		name string
		who  *node
		pod  string
		code codes.Code
		want string
	}{
		{"another deployer's", alice, "b", codes.NotFound, "there is no applied pod default/b"},
		{"a file's", alice, "file", codes.NotFound, "there is no applied pod default/file"},
		{"a file's, by a deployer that sees it", w.as(seeing), "file", codes.FailedPrecondition, "/etc/manifests/0.yaml"},
		{"an operator", w.as(access.Caller{Identity: "o", Role: access.Operator}), "a", codes.PermissionDenied, "takes the role deployer"},
		{"a consumer", w.as(access.Caller{Identity: "c", Role: access.Consumer}), "a", codes.PermissionDenied, "takes the role deployer"},
		{"an inspector", w.as(access.Caller{Identity: "i", Role: access.Inspector}), "a", codes.PermissionDenied, "takes the role deployer"},
		{"its own", alice, "a", codes.OK, ""},
		{"root, another caller's", w.node, "b", codes.OK, ""},
	} {
		check := w.unchanged()
		_, err := tc.who.api.DeleteManifests(t.Context(), podRefs(tc.pod))
		if status.Code(err) != tc.code || !strings.Contains(status.Convert(err).Message(), tc.want) {
			t.Errorf("%s: %v; want %v with %q", tc.name, err, tc.code, tc.want)
		}
		if err != nil {
			check(tc.name)
		}
	}
}
