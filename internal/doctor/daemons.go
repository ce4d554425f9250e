package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// sockets checks the permissions of the sockets' files.
func (e *examination) sockets(context.Context) []Finding {
	var found []Finding
	for _, address := range e.Podexec.Listen {
		path, local := strings.CutPrefix(address, "unix://")
		if !local {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found = append(found, Finding{"sockets", Failed, path + " isn't there", "start podexecd, or look at its log: it makes the socket first of all"})
		case err != nil:
			found = append(found, Finding{"sockets", Failed, err.Error(), "run podctl as root"})
		case info.Mode()&fs.ModeSocket == 0:
			found = append(found, Finding{"sockets", Failed, path + " is no socket", "remove it, and start podexecd again"})
		default:
			found = append(found, Finding{"sockets", OK, fmt.Sprintf("%s, %v", path, info.Mode().Perm()), ""})
		}
	}
	return found
}

// healthOf returns the health of a daemon, as a whole or of one part.
func healthOf(ctx context.Context, c Connection, part string) (healthv1.HealthCheckResponse_ServingStatus, error) {
	resp, err := healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{Service: part})
	return resp.GetStatus(), err
}

func (e *examination) podconfigd(ctx context.Context) []Finding {
	now, err := healthOf(ctx, e.Podconfigd, "")
	if err != nil {
		return []Finding{{"podconfigd", Failed, e.Podconfigd.explain(err), "start podconfigd; running pods are not affected, but no new ones start"}}
	}
	if now != healthv1.HealthCheckResponse_SERVING {
		return []Finding{{"podconfigd", Failed, "its health is " + now.String(), "look at its log"}}
	}
	if now, err = healthOf(ctx, e.Podconfigd, storeHealth); err == nil && now != healthv1.HealthCheckResponse_SERVING {
		return []Finding{{
			"podconfigd", Failed, "its store can't be written: a restart loses the changes since then",
			"look at its log for the reason: usually a full or read-only disk; it recovers by itself",
		}}
	}
	return []Finding{{"podconfigd", OK, "serves", ""}}
}

// storeHealth and runtimeHealth are parts of the daemons, in their health services.
const (
	storeHealth   = "podconfigd.store"
	runtimeHealth = "podexecd.runtime"
)

// sources checks podconfigd's sources.
func (e *examination) sources(ctx context.Context) []Finding {
	resp, err := podconfigv1.NewPodConfigServiceClient(e.Podconfigd).ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return []Finding{{"sources", Skipped, "podconfigd doesn't answer", ""}}
	}
	var found []Finding
	for _, s := range resp.GetSources() {
		name := fmt.Sprintf("%s (%s)", s.GetName(), s.GetLocation())
		rejected := 0
		for _, f := range s.GetFindings() {
			if f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR {
				rejected++
			}
		}
		switch {
		case !s.GetReady():
			found = append(found, Finding{
				"sources", Failed, name + " isn't ready: " + s.GetLastError(), "its pods start when it can be read; see `podctl sources`",
			})
		case s.GetLastError() != "":
			found = append(found, Finding{"sources", Warning, name + " can't be read now: " + s.GetLastError(), "its pods stay as they are meanwhile"})
		case rejected > 0:
			found = append(found, Finding{
				"sources", Warning, fmt.Sprintf("%s: %d manifests can't be used", name, rejected), "see `podctl sources`",
			})
		default:
			found = append(found, Finding{"sources", OK, fmt.Sprintf("%s: %d pods", name, s.GetPodCount()), ""})
		}
	}
	if len(found) == 0 {
		found = []Finding{{"sources", Warning, "podconfigd has no sources", "give it --pod-manifest-path, --manifest-url or --kubeconfig"}}
	}
	return found
}

func (e *examination) podexecd(ctx context.Context) []Finding {
	now, err := healthOf(ctx, e.Podexecd, "")
	if err != nil {
		return []Finding{{"podexecd", Failed, e.Podexecd.explain(err), "start podexecd; running containers continue without it, but are not restarted"}}
	}
	if now != healthv1.HealthCheckResponse_SERVING {
		return []Finding{{"podexecd", Failed, "its health is " + now.String(), "look at its log"}}
	}
	switch now = e.runtimeHealth(ctx); now {
	case healthv1.HealthCheckResponse_UNKNOWN:
		return []Finding{{"podexecd", Warning, "it has just started, and has no answer from the container runtime yet", "see the check \"runtime\", and ask again"}}
	case healthv1.HealthCheckResponse_NOT_SERVING:
		return []Finding{{"podexecd", Failed, "it can't reach the container runtime", "see the check \"runtime\""}}
	}
	return []Finding{{"podexecd", OK, "serves", ""}}
}

// firstAnswer is the time after its start that podexecd may take to determine the container runtime's health.
var firstAnswer = 3 * time.Second

// runtimeHealth returns the container runtime's health as podexecd sees it. It waits briefly until podexecd has
// determined it. A podexecd without that part counts as serving.
func (e *examination) runtimeHealth(ctx context.Context) healthv1.HealthCheckResponse_ServingStatus {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	known := healthv1.HealthCheckResponse_SERVING
	watch, err := healthv1.NewHealthClient(e.Podexecd).Watch(ctx, &healthv1.HealthCheckRequest{Service: runtimeHealth})
	if err != nil {
		return known
	}
	for {
		resp, err := watch.Recv()
		if err != nil {
			return known
		}
		if known = resp.GetStatus(); known != healthv1.HealthCheckResponse_UNKNOWN {
			return known
		}
	}
}

// stream checks whether podexecd receives podconfigd's stream.
func (e *examination) stream(ctx context.Context) []Finding {
	resp, err := podconfigv1.NewPodConfigServiceClient(e.Podconfigd).ListConsumers(ctx, &podconfigv1.ListConsumersRequest{})
	if err != nil {
		return []Finding{{"stream", Skipped, "podconfigd doesn't answer", ""}}
	}
	for _, c := range resp.GetConsumers() {
		if c.GetObjects() || !strings.HasPrefix(c.GetName(), "podexecd@") && !strings.Contains(c.GetIdentity(), e.Podexec.Node) {
			continue
		}
		if c.GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_PARKED {
			return []Finding{{"stream", Warning, fmt.Sprintf("%s doesn't read, and is %d revisions behind", c.GetName(), c.GetLagRevisions()),
				"look at podexecd's log: its disk or its sync loop hangs"}}
		}
		if refused := c.GetLastReport().GetErrors(); len(refused) > 0 {
			return []Finding{{"stream", Warning, fmt.Sprintf("%s refuses %d pods, such as %s/%s: %s", c.GetName(), len(refused),
				refused[0].GetRef().GetNamespace(), refused[0].GetRef().GetName(), refused[0].GetMessage()), "`podctl consumers -o wide` lists them all"}}
		}
		return []Finding{{"stream", OK, fmt.Sprintf("%s follows, %d revisions behind", c.GetName(), c.GetLagRevisions()), ""}}
	}
	return []Finding{{"stream", Failed, "podexecd doesn't watch this podconfigd", "if podexecd has just started, ask again; else see in its log why, or give it this podconfigd's address by --podconfig-endpoint"}}
}
