package stream

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// FormatCursor formats a cursor as INSTANCE/REVISION/VIEW, INSTANCE/REVISION/VIEW/POSITIONS if it has positions, or
// INSTANCE/REVISION/VIEW/POSITIONS/PODCONFIGD if it has the ID of its podconfigd, for stores and command lines. Each position is SOURCE,CLUSTER,EPOCH,VERSION, with semicolons between. Slashes and special characters
// within a part are percent-encoded. A nil cursor is the empty text.
func FormatCursor(c *podconfigv1.Cursor) string {
	if c == nil {
		return ""
	}
	text := url.PathEscape(c.GetInstanceId()) + "/" + strconv.FormatUint(c.GetRevision(), 10) + "/" + url.PathEscape(c.GetView())
	for i, p := range c.GetPositions() {
		separator := ";"
		if i == 0 {
			separator = "/"
		}
		text += separator + strings.Join([]string{
			url.PathEscape(p.GetSource()), url.PathEscape(p.GetCluster()), strconv.FormatUint(p.GetEpoch(), 10),
			url.PathEscape(p.GetResourceVersion()),
		}, ",")
	}
	if c.GetPodconfigdId() != "" {
		if len(c.GetPositions()) == 0 {
			text += "/"
		}
		text += "/" + url.PathEscape(c.GetPodconfigdId())
	}
	return text
}

// ParseCursor parses the output of FormatCursor. The empty text is nil. It returns an error for any other text, and
// for a cursor without an instance, or with positions that aren't valid.
func ParseCursor(text string) (*podconfigv1.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 3 || len(parts) > 5 || parts[0] == "" || len(parts) == 5 && parts[4] == "" {
		return nil, fmt.Errorf("cursor %q: want INSTANCE/REVISION/VIEW, INSTANCE/REVISION/VIEW/POSITIONS or "+
			"INSTANCE/REVISION/VIEW/POSITIONS/PODCONFIGD", text)
	}
	instance, err := url.PathUnescape(parts[0])
	if err != nil {
		return nil, fmt.Errorf("cursor %q: instance: %w", text, err)
	}
	revision, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("cursor %q: revision: %w", text, err)
	}
	view, err := url.PathUnescape(parts[2])
	if err != nil {
		return nil, fmt.Errorf("cursor %q: view: %w", text, err)
	}
	c := &podconfigv1.Cursor{InstanceId: instance, Revision: revision, View: view}
	if len(parts) == 5 {
		if c.PodconfigdId, err = url.PathUnescape(parts[4]); err != nil {
			return nil, fmt.Errorf("cursor %q: podconfigd: %w", text, err)
		}
	}
	if len(parts) > 3 && (len(parts) == 4 || parts[3] != "") {
		if c.Positions, err = parsePositions(parts[3]); err != nil {
			return nil, fmt.Errorf("cursor %q: positions: %w", text, err)
		}
	}
	return c, nil
}

func parsePositions(text string) ([]*podconfigv1.SourcePosition, error) {
	var out []*podconfigv1.SourcePosition
	for one := range strings.SplitSeq(text, ";") {
		parts := strings.Split(one, ",")
		if len(parts) != 4 {
			return nil, fmt.Errorf("%q: want SOURCE,CLUSTER,EPOCH,VERSION", one)
		}
		for i := range parts {
			var err error
			if parts[i], err = url.PathUnescape(parts[i]); err != nil {
				return nil, err
			}
		}
		epoch, err := strconv.ParseUint(parts[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("epoch: %w", err)
		}
		out = append(out, &podconfigv1.SourcePosition{Source: parts[0], Cluster: parts[1], Epoch: epoch, ResourceVersion: parts[3]})
	}
	_, err := position.FromProto(out)
	return out, err
}
