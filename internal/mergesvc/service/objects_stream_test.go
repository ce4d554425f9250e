package service_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectStream is one subscription to objects.
type objectStream struct {
	t      *testing.T
	cancel context.CancelFunc
	podconfigv1.PodConfigService_WatchObjectsClient
}

// watchObjects subscribes. The stream ends with the test.
func (n *objectNode) watchObjects(req *podconfigv1.WatchObjectsRequest) *objectStream {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	n.t.Cleanup(cancel)
	s, err := n.api.WatchObjects(ctx, req)
	if err != nil {
		n.t.Fatalf("WatchObjects: %v; want a stream", err)
	}
	return &objectStream{t: n.t, cancel: cancel, PodConfigService_WatchObjectsClient: s}
}

func resumed(cursor *podconfigv1.Cursor, held ...*podconfigv1.KnownObject) *podconfigv1.WatchObjectsRequest {
	return &podconfigv1.WatchObjectsRequest{ResumeAfter: cursor, KnownObjects: held}
}

// objectUnit is what a consumer applies as a whole.
type objectUnit struct {
	messages []*podconfigv1.WatchObjectsResponse
	cursor   *podconfigv1.Cursor
}

// unit reads the next unit.
func (s *objectStream) unit() objectUnit {
	s.t.Helper()
	var u objectUnit
	for {
		m, err := s.Recv()
		if err != nil {
			s.t.Fatalf("the stream ended with %v; want another message", err)
		}
		u.messages = append(u.messages, m)
		if m.GetHeartbeat() == nil && m.GetContinued() == (m.GetCursor() != nil) {
			s.t.Fatalf("message %d of a unit has continued=%v and cursor %v; want exactly one of them", len(u.messages), m.GetContinued(), m.GetCursor())
		}
		if !m.GetContinued() {
			u.cursor = m.GetCursor()
			return u
		}
	}
}

// want reads the next unit and compares it with lines like "PUT cm/a=1" or "synced file api?", where a source that
// isn't ready has a question mark.
func (s *objectStream) want(lines ...string) objectUnit {
	s.t.Helper()
	u := s.unit()
	if got, want := u.String(), strings.Join(lines, "\n"); got != want {
		s.t.Fatalf("the next unit is\n%s\nwant\n%s", got, want)
	}
	return u
}

func (u objectUnit) String() string {
	var lines []string
	for _, m := range u.messages {
		switch e := m.GetEvent().(type) {
		case *podconfigv1.WatchObjectsResponse_Update:
			line := strings.TrimPrefix(e.Update.GetOp().String(), "OBJECT_OPERATION_")
			for _, o := range e.Update.GetObjects() {
				line += " " + objectText(o)
			}
			lines = append(lines, line)
		case *podconfigv1.WatchObjectsResponse_Synced:
			lines = append(lines, "synced"+sourcesText(e.Synced.GetSources()))
		case *podconfigv1.WatchObjectsResponse_Heartbeat:
			lines = append(lines, "heartbeat"+sourcesText(e.Heartbeat.GetSources()))
		default:
			lines = append(lines, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(lines, "\n")
}

func objectText(o *podconfigv1.Object) string {
	text := map[podconfigv1.ObjectKind]string{
		podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP: "cm/", podconfigv1.ObjectKind_OBJECT_KIND_SECRET: "secret/",
	}[o.GetRef().GetKind()] + o.GetRef().GetName()
	if source := o.GetRef().GetSource(); source != "file" {
		text = source + ":" + text
	}
	if o.GetJson() == nil || o.GetRef().GetKind() > podconfigv1.ObjectKind_OBJECT_KIND_SECRET {
		return text
	}
	value := o.GetJson().AsMap()["data"].(map[string]any)["v"].(string)
	if o.GetRef().GetKind() == podconfigv1.ObjectKind_OBJECT_KIND_SECRET {
		plain, _ := base64.StdEncoding.DecodeString(value)
		value = string(plain)
	}
	return text + "=" + value
}

func sourcesText(sources []*podconfigv1.SourceReadiness) string {
	text := ""
	for _, s := range sources {
		text += " " + s.GetName()
		if !s.GetReady() {
			text += "?"
		}
	}
	return text
}
