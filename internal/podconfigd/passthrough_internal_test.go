package podconfigd

import "testing"

func TestPassthroughFlags(t *testing.T) {
	for _, f := range []passthroughFlags{
		{listen: ":1"}, {targets: []string{"a.example=b:1"}}, {listen: "x", targets: []string{"a.example=b:1"}},
		{listen: ":1", targets: []string{"a.example"}}, {listen: ":1", targets: []string{"10.0.0.1=b:1"}},
		{listen: ":1", targets: []string{"*.example=b:1"}}, {listen: ":1", targets: []string{"a.x=b:1", "A.x=c:1"}},
		{listen: ":1", targets: []string{"a.x=b:1", "a.x=c:1"}},
	} {
		if _, err := f.server(nil); err == nil {
			t.Errorf("%+v: no error", f)
		}
	}
	if s, err := (&passthroughFlags{}).server(nil); s != nil || err != nil {
		t.Errorf("without flags: %v, %v", s, err)
	}
	if s, err := (&passthroughFlags{listen: ":1", targets: []string{"a.x=b:1"}}).server(nil); s == nil || err != nil {
		t.Errorf("with both flags: %v, %v", s, err)
	}
}
