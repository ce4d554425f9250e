package podctl

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectPrinter prints objects as rows, or as documents with their content.
type objectPrinter struct {
	// table is nil for documents.
	table     *render.Table
	documents *render.Documents
	// ops is set if each line has an operation.
	ops, wide bool
	// list is printed as one document, unless ops is set.
	list []objectDocument
}

func (t *tool) newObjectPrinter(ops bool) *objectPrinter {
	p := &objectPrinter{ops: ops, wide: t.output == render.WideFormat}
	if !t.output.IsTable() {
		p.documents = t.documents("object")
		p.documents.Stream = ops
		return p
	}
	header := []string{"SOURCE", "KIND", "NAMESPACE", "NAME", "DIGEST"}
	if ops {
		header = append([]string{"OP"}, header...)
	}
	p.table = t.newTable(header...)
	return p
}

// objectDocument is one object as JSON or YAML.
type objectDocument struct {
	Op        string           `json:"op,omitempty"`
	Source    string           `json:"source"`
	Kind      string           `json:"kind"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Missing   bool             `json:"missing,omitempty"`
	Digest    string           `json:"digest,omitempty"`
	Object    *json.RawMessage `json:"object,omitempty"`
}

// object prints one object of an op.
func (p *objectPrinter) object(op podconfigv1.ObjectOperation, o *podconfigv1.Object) error {
	ref, word := o.GetRef(), enumWord(op, "OBJECT_OPERATION_", "UNSPECIFIED")
	kind := kindText(ref.GetKind())
	missing := op == podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING
	if p.table == nil {
		d := objectDocument{
			Source: ref.GetSource(), Kind: kind, Namespace: ref.GetNamespace(), Name: ref.GetName(), Missing: missing, Digest: o.GetDigest(),
		}
		if p.ops {
			d.Op = word
		}
		content, err := contentText(o.GetJson())
		if err != nil {
			return err
		}
		d.Object = content
		if !p.ops {
			p.list = append(p.list, d)
			return nil
		}
		return p.documents.Print(d)
	}
	digest := o.GetDigest()
	if !p.wide {
		digest = shortDigest(digest)
	}
	if missing && !p.ops {
		digest = "(missing)"
	}
	cells := []string{ref.GetSource(), kind, ref.GetNamespace(), ref.GetName(), digest}
	if p.ops {
		cells = append([]string{word}, cells...)
	}
	p.table.Row(cells...)
	return nil
}

// end prints the rest of a unit.
func (p *objectPrinter) end() error {
	if p.table == nil {
		return nil
	}
	return p.table.Flush()
}

func contentText(content *structpb.Struct) (*json.RawMessage, error) {
	if content == nil {
		return nil, nil //nolint:nilnil // Nothing is no failure.
	}
	text, err := content.MarshalJSON()
	raw := json.RawMessage(text)
	return &raw, err
}

func kindText(kind podconfigv1.ObjectKind) string {
	switch kind {
	case podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:
		return "ConfigMap"
	case podconfigv1.ObjectKind_OBJECT_KIND_SECRET:
		return "Secret"
	case podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM:
		return "PersistentVolumeClaim"
	case podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME:
		return "PersistentVolume"
	case podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER:
		return "CSIDriver"
	default:
		return enumWord(kind, "OBJECT_KIND_", "")
	}
}

// shortDigest returns the start of a digest, long enough to distinguish versions.
func shortDigest(digest string) string {
	const length = 12
	_, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) <= length {
		return digest
	}
	return hex[:length]
}

// listed prints a list once it is complete.
func (p *objectPrinter) listed() error {
	if p.table != nil || p.ops {
		return nil
	}
	return p.documents.Print(struct {
		Objects []objectDocument `json:"objects"`
	}{render.OrEmpty(p.list)})
}
