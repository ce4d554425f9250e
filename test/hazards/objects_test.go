package hazards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func objects(s *scenario, d *datadriven.TestData) string {
	return s.until(d, func() (string, error) {
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		stream, err := s.config.WatchObjects(ctx, &podconfigv1.WatchObjectsRequest{Consumer: "objects"})
		if err != nil {
			return "", err
		}
		var out []string
		for {
			msg, err := stream.Recv()
			if err != nil {
				return "", err
			}
			for _, o := range msg.GetUpdate().GetObjects() {
				out = append(out, object(msg.GetUpdate().GetOp(), o))
			}
			if msg.GetSynced() != nil {
				slices.Sort(out)
				return unlines(out), nil
			}
		}
	})
}

// object shows OP KIND NAMESPACE/NAME of SOURCE, and the data.
func object(op podconfigv1.ObjectOperation, o *podconfigv1.Object) string {
	ref := o.GetRef()
	kind := map[podconfigv1.ObjectKind]string{
		podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP: "ConfigMap", podconfigv1.ObjectKind_OBJECT_KIND_SECRET: "Secret",
	}[ref.GetKind()]
	text := fmt.Sprintf("%s %s %s/%s of %s", strings.TrimPrefix(op.String(), "OBJECT_OPERATION_"), kind, ref.GetNamespace(), ref.GetName(), ref.GetSource())
	data := o.GetJson().GetFields()["data"].GetStructValue().GetFields()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text += fmt.Sprintf(" %s=%q", key, data[key].GetStringValue())
	}
	return text
}
