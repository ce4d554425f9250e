package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1/podwebv1connect"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestTheLinksFile: the file is gone once its ticket was used, or when it has expired; Enter makes another one, and a ticket that
// comes twice is reported.
func TestTheLinksFile(t *testing.T) {
	in, enter := io.Pipe()
	defer enter.Close()
	clock := testingclock.NewFakeClock(podctltest.Noon)
	x := start(t, func(cfg *web.Config) { cfg.Stdin, cfg.Clock = in, clock })
	gone := func() bool {
		_, err := os.Lstat(x.path)
		return os.IsNotExist(err)
	}
	first := x.link()
	webtest.Open(t, first)
	if !gone() {
		t.Error("the file is there after its ticket was used")
	}
	if _, ok := openSession(t, first); ok {
		t.Error("the ticket is valid again")
	}
	x.awaitNote("the link was used a second time")
	again := func() webtest.Link {
		t.Helper()
		if _, err := io.WriteString(enter, "\n"); err != nil {
			t.Fatal(err)
		}
		var link webtest.Link
		webtest.Await(t, "another link", nil, func() bool {
			var ok bool
			link, ok = webtest.ReadLink(x.path)
			return ok
		})
		return link
	}
	second := again()
	if second.Ticket == first.Ticket {
		t.Error("the second link is the first one")
	}
	webtest.Await(t, "the file's time to begin", nil, clock.HasWaiters)
	webtest.Await(t, "the file to be gone", nil, func() bool {
		clock.Step(time.Minute)
		return gone()
	})
	webtest.Open(t, again())
	if err := x.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(x.path); !os.IsNotExist(err) {
		t.Errorf("the file is left at the end: %v", err)
	}
}

// TestIdleTime: podctl web ends when the page isn't used, although a tab is open; a call puts the end off.
func TestIdleTime(t *testing.T) {
	clock := testingclock.NewFakeClock(podctltest.Noon)
	x := start(t, func(cfg *web.Config) { cfg.Clock, cfg.IdleTimeout = clock, 30*time.Minute })
	_, client := x.open()
	tab := webtest.NewTab(t, client)
	clock.Step(20 * time.Minute)
	alive, err := client.KeepAlive(t.Context(), &podwebv1.KeepAliveRequest{})
	if want := podctltest.Noon.Add(50 * time.Minute); err != nil || !alive.GetEndsAt().AsTime().Equal(want) {
		t.Fatalf("it ends at %v, %v; want %v", alive.GetEndsAt().AsTime(), err, want)
	}
	clock.Step(20 * time.Minute)
	if note := x.find("it ends"); note != "" {
		t.Fatalf("it ends too early: %s", note)
	}
	webtest.Await(t, "the end", nil, func() bool {
		clock.Step(time.Minute)
		return x.find("podctl web wasn't used for 30m0s: it ends") != ""
	})
	for tab.Next() != nil {
	}
	if code := connect.CodeOf(tab.Err()); code != connect.CodeUnavailable {
		t.Errorf("the tab's stream ends with %v", tab.Err())
	}
}

// TestAnotherTab: a tab opens another one by a ticket, without the terminal.
func TestAnotherTab(t *testing.T) {
	x := start(t, nil)
	_, client := x.open()
	r, err := client.NewTicket(t.Context(), &podwebv1.NewTicketRequest{})
	if err != nil {
		t.Fatal(err)
	}
	session, other := webtest.Open(t, webtest.Link{Host: x.host(), Ticket: r.GetTicket()})
	if session == x.session {
		t.Error("both tabs have one session")
	}
	if _, err := other.GetSession(t.Context(), &podwebv1.GetSessionRequest{}); err != nil {
		t.Error(err)
	}
}

// TestReports: reports of browsers are counted, and the first one is noted.
func TestReports(t *testing.T) {
	x := start(t, nil)
	_, client := x.open()
	for range 3 {
		answer, _ := send(t, x, http.MethodPost, "/csp-report", map[string]string{"Content-Type": "application/csp-report"}, strings.NewReader("{}"))
		if !strings.HasPrefix(answer, "204") {
			t.Errorf("the answer to a report is %s", answer)
		}
	}
	r, err := client.GetSession(t.Context(), &podwebv1.GetSessionRequest{})
	if err != nil || r.GetSession().GetCspReports() != 3 {
		t.Errorf("the session has %v, %v; want 3 reports", r.GetSession().GetCspReports(), err)
	}
	x.awaitNote("violated its content security policy")
}

// TestDaemonsGoAway: while a daemon is away, the tab's stream stays and says so by topic, and goes on when it returns.
func TestDaemonsGoAway(t *testing.T) {
	x := start(t, nil)
	uid := podctltest.UID("web")
	x.podconfigd.Set("file", "a: web(uid="+uid+",image=a)")
	_, client := x.open()
	tab := webtest.NewTab(t, client,
		&podwebv1.Subscription{Id: "t", Topic: &podwebv1.Topic{Topic: &podwebv1.Topic_Timeline{Timeline: &podwebv1.TimelineTopic{}}}},
		&podwebv1.Subscription{Id: "e", Topic: &podwebv1.Topic{Topic: &podwebv1.Topic_Events{Events: &podwebv1.EventsTopic{}}}})
	until := func(id string, state podwebv1.ConnectionState) {
		t.Helper()
		tab.Until(id+" to be "+state.String(), func(d *podwebv1.Delivery) bool { return d.GetId() == id && d.GetConnection().GetState() == state })
	}
	until("t", podwebv1.ConnectionState_CONNECTION_STATE_LIVE)
	x.podconfigd.Down()
	until("t", podwebv1.ConnectionState_CONNECTION_STATE_BROKEN)
	x.podconfigd.Set("file", "a: web(uid="+uid+",image=b)")
	x.podconfigd.Up()
	tab.Until("the revision", func(d *podwebv1.Delivery) bool {
		revisions := d.GetTimeline().GetRevisions()
		return len(revisions) == 1 && revisions[0].GetRevision() == 2 && revisions[0].GetKind() == podwebv1.RevisionKind_REVISION_KIND_EXACT
	})
	x.podexecd.Down()
	until("e", podwebv1.ConnectionState_CONNECTION_STATE_BROKEN)
	x.podexecd.Up()
	until("e", podwebv1.ConnectionState_CONNECTION_STATE_LIVE)
}

// TestSixConnections: four tabs, each with a timeline and eight followed logs, leave connections for calls, although a browser has
// six for all of them.
func TestSixConnections(t *testing.T) {
	x := start(t, nil)
	x.podexecd.Logs = func(_ *podexecv1.ReadLogsRequest, s grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
		<-s.Context().Done()
		return nil
	}
	x.runPod("web")
	session, _ := x.open()
	transport := &http.Transport{MaxConnsPerHost: 6}
	defer transport.CloseIdleConnections()
	client := podwebv1connect.NewWebServiceClient(&http.Client{Transport: webtest.Browser{Host: x.host(), Session: session, Next: transport}}, "http://"+x.host())
	subscriptions := []*podwebv1.Subscription{{Id: "t", Topic: &podwebv1.Topic{Topic: &podwebv1.Topic_Timeline{Timeline: &podwebv1.TimelineTopic{}}}}}
	for _, c := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		subscriptions = append(subscriptions, &podwebv1.Subscription{Id: c, Topic: &podwebv1.Topic{Topic: &podwebv1.Topic_Logs{Logs: &podwebv1.LogsTopic{
			Containers: []*podwebv1.LogContainer{{PodKey: board.Key("pod", podctltest.UID("web")), Container: c}},
		}}}})
	}
	for range 4 {
		webtest.NewTab(t, client, subscriptions...)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), webtest.Deadline)
			defer cancel()
			if _, err := client.GetSession(ctx, &podwebv1.GetSessionRequest{}); err != nil {
				t.Errorf("a call beside four tabs: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestPortInUse: a port that another program has is an error, and nothing is left.
func TestPortInUse(t *testing.T) {
	x := start(t, nil)
	_, port, _ := strings.Cut(x.host(), ":")
	n := 0
	for _, c := range port {
		n = 10*n + int(c-'0')
	}
	cfg := x.config
	cfg.Port = n
	ctx, cancel := context.WithTimeout(t.Context(), webtest.Deadline)
	defer cancel()
	if err := web.Run(ctx, cfg); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run on a port in use: %v", err)
	}
}
