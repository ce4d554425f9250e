package webtest

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"testing"

	"connectrpc.com/connect"

	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1/podwebv1connect"
)

// address finds the page's address in the file with the link.
var address = regexp.MustCompile(`url=(http://(127\.0\.0\.1:[0-9]+)/)#token=([A-Za-z0-9_-]+)"`)

// Link is what the file with the link has.
type Link struct{ Host, Ticket string }

// ReadLink reads the file with the link.
func ReadLink(path string) (Link, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Link{}, false
	}
	found := address.FindStringSubmatch(string(text))
	if found == nil {
		return Link{}, false
	}
	return Link{found[2], found[3]}, true
}

// Browser sends requests with the headers of the page, as a browser does. Headers of a request are kept.
type Browser struct {
	Host, Session string
	// Next sends the requests. Nil means http.DefaultTransport.
	Next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b Browser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	set := func(name, value string) {
		if r.Header.Get(name) == "" && value != "" {
			r.Header.Set(name, value)
		}
	}
	set("Origin", "http://"+b.Host)
	set("Sec-Fetch-Site", "same-origin")
	set("Sec-Fetch-Mode", "cors")
	set("Sec-Fetch-Dest", "empty")
	if b.Session != "" {
		set("Authorization", "Bearer "+b.Session)
	}
	if b.Next == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return b.Next.RoundTrip(r)
}

// NewClient returns a client of the API. Close its connections with the test.
func NewClient(t testing.TB, host, session string) podwebv1connect.WebServiceClient {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return podwebv1connect.NewWebServiceClient(&http.Client{Transport: Browser{host, session, transport}}, "http://"+host)
}

// Open opens a session.
func Open(t testing.TB, link Link) (session string, client podwebv1connect.WebServiceClient) {
	t.Helper()
	r, err := NewClient(t, link.Host, "").OpenSession(t.Context(), &podwebv1.OpenSessionRequest{Ticket: link.Ticket})
	if err != nil {
		t.Fatalf("OpenSession: %v", err)
	}
	return r.GetSession(), NewClient(t, link.Host, r.GetSession())
}

// Tab is the stream of a tab, and what it has delivered.
type Tab struct {
	ID     string
	t      testing.TB
	stream *connect.ServerStreamForClient[podwebv1.WatchResponse]
	cancel context.CancelFunc
	// Cursors are those of the last deliveries, by the subscriptions' ids.
	Cursors map[string]string
}

// NewTab opens a stream.
func NewTab(t testing.TB, client podwebv1connect.WebServiceClient, subscriptions ...*podwebv1.Subscription) *Tab {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := client.Watch(ctx, &podwebv1.WatchRequest{Subscriptions: subscriptions})
	if err != nil {
		cancel()
		t.Fatalf("Watch: %v", err)
	}
	tab := &Tab{t: t, stream: stream, cancel: cancel, Cursors: map[string]string{}}
	t.Cleanup(tab.Close)
	if !stream.Receive() {
		t.Fatalf("the stream ends before its first message: %v", stream.Err())
	}
	tab.ID = stream.Msg().GetOpened().GetTab()
	return tab
}

// Close ends the stream.
func (t *Tab) Close() {
	t.cancel()
	_ = t.stream.Close()
}

// Next waits for the next delivery. Nil: the stream has ended, with the error of Err.
func (t *Tab) Next() *podwebv1.Delivery {
	for t.stream.Receive() {
		if d := t.stream.Msg().GetDelivery(); d != nil {
			t.Cursors[d.GetId()] = d.GetCursor()
			return d
		}
	}
	return nil
}

// Err returns how the stream ended.
func (t *Tab) Err() error { return t.stream.Err() }

// Until receives deliveries until ok reports true for one.
func (t *Tab) Until(what string, ok func(*podwebv1.Delivery) bool) *podwebv1.Delivery {
	t.t.Helper()
	for {
		d := t.Next()
		if d == nil {
			t.t.Fatalf("%s: the stream ended: %v", what, t.Err())
		}
		if ok(d) {
			return d
		}
	}
}
