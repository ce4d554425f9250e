package web

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	gatewayNodes = 48
	gatewayPods  = 3 // of each node
)

// gatewayNode returns the name of a node.
func gatewayNode(i int) string { return fmt.Sprintf("edge-%02d.site.example", i) }

// putPod has the API server assign a pod to a node.
func putPod(api *apitest.Server, node, name string) {
	api.Put(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: devnode.SampleImage}}},
	})
}

// follow follows the pods of a node as its podexecd does, until stop is called. It returns the first cursor.
func follow(t *testing.T, api podconfigv1.PodConfigServiceClient, node string) (cursor *podconfigv1.Cursor, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := api.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{Consumer: node, Filter: &podconfigv1.PodFilter{Nodes: []string{node}}})
	rig.Must(t, err)
	for cursor == nil {
		m, err := stream.Recv()
		rig.Must(t, err)
		if m.GetSynced() != nil {
			cursor = m.GetCursor()
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return cursor, stop
}

// Pointed at a gateway, the page shows a grid of its nodes with their desired pods and refusals, says that a gateway observes
// nothing, and has none of the views that a podexecd feeds.
func TestGateway(t *testing.T) {
	long(t)
	node := machine.node
	server := apitest.New(t, apitest.Config{})
	for i := range gatewayNodes {
		for k := range gatewayPods {
			putPod(server, gatewayNode(i), fmt.Sprintf("pod-%02d-%d", i, k))
		}
	}
	socket := node.Socket("gw")
	process, err := node.StartDaemonAs("gateway", "podconfigd", "--root-dir", node.Path("gateway"), "--listen", "unix://"+socket,
		"--hostname-override", "gateway", "--pod-manifest-path=", "--nodes=*", "--kubeconfig", server.Kubeconfig(apitest.Identity{}))
	rig.Must(t, err)
	t.Cleanup(func() { rig.Must(t, process.Kill()) })
	conn, err := rig.Dial("unix://" + socket)
	rig.Must(t, err)
	t.Cleanup(func() { rig.Must(t, conn.Close()) })
	api := podconfigv1.NewPodConfigServiceClient(conn)

	// All nodes but one follow the gateway; the second one refuses a pod, and the third one goes away after its report.
	var refused *podconfigv1.PodRef
	rig.Must(t, rig.Poll(patience, func() error {
		resp, err := api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{Filter: &podconfigv1.PodFilter{Nodes: []string{gatewayNode(1)}}})
		if err == nil && len(resp.GetPods()) < gatewayPods {
			err = fmt.Errorf("%d pods", len(resp.GetPods()))
		}
		if err == nil {
			refused = resp.GetPods()[0].GetRef()
		}
		return err
	}))
	for i := 1; i < gatewayNodes; i++ {
		cursor, stop := follow(t, api, gatewayNode(i))
		report := &podconfigv1.ReportAppliedRequest{Consumer: gatewayNode(i), Cursor: cursor, Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED}
		if i == 1 {
			report.Errors = []*podconfigv1.PodError{{Ref: refused, Reason: "OutOfcpu", Message: "the node has 1 CPU, of which 0.9 are requested"}}
		}
		_, err := api.ReportApplied(t.Context(), report)
		rig.Must(t, err)
		if i == 2 {
			stop()
		}
	}

	b := newTab(t, startSite(t, socket, node.Socket("nopodexecd")).address)
	tile := func(title string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#main .tile')].find((e) => e.innerText.includes(%s))?.querySelector("b").innerText`, js(title))
	}
	cards := `[...document.querySelectorAll('[role=grid][aria-label=Nodes] .card')]`
	b.wait("the page is that of a gateway", `document.querySelector('.bar .where')?.innerText.includes("gateway")`)
	b.has("A gateway observes nothing")
	b.wait("each node is counted", tile("nodes")+fmt.Sprintf(` === "%d"`, gatewayNodes))
	b.wait("one refuses a pod", tile("refuse pods")+` === "1"`)
	b.wait("two aren't connected", tile("not connected")+` === "2"`)
	b.wait("the bad nodes come first", cards+`.slice(0, 3).map((e) => e.innerText.match(/edge-\d\d/)?.[0]).sort().join() === "edge-00,edge-01,edge-02"`)
	b.wait("a node has its desired pods", cards+fmt.Sprintf(`.some((e) => e.innerText.includes("edge-05") && e.innerText.includes("%d pods"))`, gatewayPods))
	if views := eval[string](b, `[...document.querySelectorAll(".nav a")].map((e) => e.firstChild.data).join()`); strings.ContainsAny(views, "0123456789") ||
		strings.Contains(views, "Logs") || strings.Contains(views, "Terminal") || strings.Contains(views, "Charts") || !strings.HasPrefix(views, "Nodes,Pods") {
		t.Errorf("the views at a gateway are %s", views)
	}
	b.axe("nodes")
	b.click("the node that refuses", cards+`.find((e) => e.innerText.includes("edge-01"))`)
	b.wait("the refusal is shown", `document.querySelector('[aria-label="Consumers of the node"]')?.innerText.includes("of which 0.9 are requested")`)
	b.wait("its desired pods are listed", fmt.Sprintf(`document.querySelectorAll('[aria-label^="Desired pods of the node"] .rows .line').length === %d`, gatewayPods))
	b.axe("a node")
	b.shoot("nodes")

	putPod(server, gatewayNode(1), "new")
	b.wait("a new pod of the node comes", row("Desired pods of the node", "shop/new"))
	putPod(server, "edge-99.site.example", "first")
	b.wait("a new node comes", tile("nodes")+fmt.Sprintf(` === "%d"`, gatewayNodes+1))
	rig.Must(t, process.Kill())
	b.has("podconfigd can't be reached since")
	b.wait("the grid stays", tile("nodes")+fmt.Sprintf(` === "%d"`, gatewayNodes+1))
}
