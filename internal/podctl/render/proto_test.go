package render_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// 64-bit numbers are numbers everywhere; the content of a pod is unchanged.
func TestProtoValue(t *testing.T) {
	content, err := structpb.NewStruct(map[string]any{"revision": "7", "<n>": 1.5})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		value render.Proto
		want  string
	}{
		{render.Proto{Message: &podconfigv1.Cursor{InstanceId: "9", Revision: 18446744073709551615, View: "<all>"}},
			`{"instanceId":"9","revision":18446744073709551615,"view":"<all>","positions":[],"podconfigdId":""}`},
		{render.Proto{Message: &podconfigv1.DiffManifestsResponse{Revision: 3}}, `{"updates":[],"findings":[],"revision":3}`},
		{render.Proto{Message: &podconfigv1.ReportAppliedRequest{Cursor: &podconfigv1.Cursor{Revision: 2}, Errors: []*podconfigv1.PodError{{Reason: "1"}}}},
			`{"consumer":"","cursor":{"instanceId":"","revision":2,"view":"","positions":[],"podconfigdId":""},"outcome":"APPLY_OUTCOME_UNSPECIFIED",` +
				`"errors":[{"reason":"1","message":""}]}`},
		{render.Proto{Message: content}, `{"<n>":1.5,"revision":"7"}`},
	} {
		text, err := render.JSON(tc.value)
		if err != nil || text != tc.want+"\n" {
			t.Errorf("%v is %s, %v; want %s", tc.value, text, err, tc.want)
		}
	}
}
