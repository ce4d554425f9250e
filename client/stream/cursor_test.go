package stream

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestCursorText is the format of cursors.
func TestCursorText(t *testing.T) {
	for text, want := range map[string]*podconfigv1.Cursor{
		"":                           nil,
		"0f3e-77/12/abc":             {InstanceId: "0f3e-77", Revision: 12, View: "abc"},
		"i/18446744073709551615/":    {InstanceId: "i", Revision: 1<<64 - 1},
		"a%2Fb%20c/0/100%25":         {InstanceId: "a/b c", View: "100%"},
		"temporary-1/7/deadbeef0123": {InstanceId: "temporary-1", Revision: 7, View: "deadbeef0123"},
		"i/1/v/api,c-1,0,12":         {InstanceId: "i", Revision: 1, View: "v", Positions: positions("api", "c-1", 0, "12")},
		"i/1/v//a%2Fb":               {InstanceId: "i", Revision: 1, View: "v", PodconfigdId: "a/b"},
		"i/1/v/api,c-1,0,12/p": {
			InstanceId: "i", Revision: 1, View: "v", Positions: positions("api", "c-1", 0, "12"), PodconfigdId: "p",
		},
		"i/1//relay:a%2C%3B%2F,c,3,1;api,d,0,9": {
			InstanceId: "i", Revision: 1,
			Positions: append(positions("relay:a,;/", "c", 3, "1"), positions("api", "d", 0, "9")...),
		},
	} {
		if got := FormatCursor(want); got != text {
			t.Errorf("%v is written as %q; want %q", want, got, text)
		}
		if got, err := ParseCursor(text); err != nil || !proto.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q is read as %v, %v; want %v", text, got, err, want)
		}
	}
}

// positions is one position.
func positions(source, cluster string, epoch uint64, version string) []*podconfigv1.SourcePosition {
	return []*podconfigv1.SourcePosition{{Source: source, Cluster: cluster, Epoch: epoch, ResourceVersion: version}}
}

// TestParseCursorRefuses: texts that aren't a cursor are errors that name the wrong part.
func TestParseCursorRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"i": "INSTANCE/REVISION/VIEW", "i/1": "INSTANCE/REVISION/VIEW", "i/1/v/": "SOURCE,CLUSTER,EPOCH,VERSION", "/1/v": "INSTANCE/REVISION/VIEW",
		"i/-1/v": "revision", "i//v": "revision", "i/18446744073709551616/v": "revision", "%/1/v": "instance", "i/1/%zz": "view",
		"i/1/v/api,c,0,1/": "INSTANCE/REVISION/VIEW/POSITIONS", "i/1/v/api,c,0": "SOURCE,CLUSTER,EPOCH,VERSION",
		"i/1/v/api,c,x,1": "epoch", "i/1/v/api,c,0,01": "invalid position", "i/1/v/api,c,0,1;api,c,0,2": "invalid position",
		"i/1/v/api,%,0,1": "positions", "i/1/v//%zz": "podconfigd", "i/1/v///p": "INSTANCE/REVISION/VIEW", "i/1/v/,c,0,1": "invalid position",
	} {
		if got, err := ParseCursor(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is read as %v, %v; want an error that names it and says %q", text, got, err, want)
		}
	}
}

// TestCursorTextKeepsAll: the text keeps every instance and view.
func TestCursorTextKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &podconfigv1.Cursor{
			InstanceId: rapid.StringN(1, 40, -1).Draw(t, "instance"), Revision: rapid.Uint64().Draw(t, "revision"),
			View: rapid.String().Draw(t, "view"), PodconfigdId: rapid.String().Draw(t, "podconfigd"),
		}
		if rapid.Bool().Draw(t, "positions") {
			want.Positions = positions(rapid.StringN(1, 40, -1).Draw(t, "source"), rapid.StringN(1, 16, 64).Draw(t, "cluster"),
				rapid.Uint64Max(1<<40).Draw(t, "epoch"), fmt.Sprint(rapid.Uint64Min(1).Draw(t, "version")))
		}
		got, err := ParseCursor(FormatCursor(want))
		if err != nil || !proto.Equal(got, want) {
			t.Fatalf("%v is written as %q and read as %v, %v", want, FormatCursor(want), got, err)
		}
	})
}
