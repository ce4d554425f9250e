package service

import (
	"context"
	"errors"
	"regexp"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
)

// idText is what ids are made of.
var idText = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Subscribe is part of podweb.v1.
func (s *Service) Subscribe(_ context.Context, req *podwebv1.SubscribeRequest) (*podwebv1.SubscribeResponse, error) {
	s.cfg.Idle.Touch()
	t, err := s.tab(req.GetTab())
	if err == nil {
		err = s.subscribe(t, req.GetSubscription(), false)
	}
	if err != nil {
		return nil, err
	}
	return &podwebv1.SubscribeResponse{}, nil
}

// Unsubscribe is part of podweb.v1.
func (s *Service) Unsubscribe(_ context.Context, req *podwebv1.UnsubscribeRequest) (*podwebv1.UnsubscribeResponse, error) {
	s.cfg.Idle.Touch()
	t, err := s.tab(req.GetTab())
	if err != nil {
		return nil, err
	}
	t.drop(req.GetId())
	return &podwebv1.UnsubscribeResponse{}, nil
}

// subscribe adds a subscription. With lenient, a topic that can't be followed any more doesn't fail: the tab comes back with
// what it had.
func (s *Service) subscribe(t *tab, sub *podwebv1.Subscription, lenient bool) error {
	if !idText.MatchString(sub.GetId()) {
		return refuse(connect.CodeInvalidArgument, "the subscription needs an id of 1 to 64 characters of A-Z a-z 0-9 - _")
	}
	r, err := s.reader(t, sub)
	if err != nil {
		if !lenient || connect.CodeOf(err) == connect.CodeInvalidArgument {
			return err
		}
		r = &failedReader{&podwebv1.Connection{
			State: podwebv1.ConnectionState_CONNECTION_STATE_ENDED, Text: plaintext.Line(message(err), plaintext.Message),
			Since: timestamppb.New(s.cfg.Clock.Now()),
		}}
	}
	return t.put(&subscription{sub.GetId(), r})
}

// message returns the text of an error without its code.
func message(err error) string {
	if own, ok := errors.AsType[*connect.Error](err); ok {
		return own.Message()
	}
	return err.Error()
}

// reader returns the reader of a subscription.
func (s *Service) reader(t *tab, sub *podwebv1.Subscription) (reader, error) {
	b, at, cursor := s.cfg.Board, placeOf(sub.GetTopic()), sub.GetCursor()
	switch topic := sub.GetTopic().GetTopic().(type) {
	case *podwebv1.Topic_Timeline:
		return newTimelineReader(t, b, at, topic.Timeline, cursor), nil
	case *podwebv1.Topic_Pods:
		return s.pods(t, at, topic.Pods, cursor)
	case *podwebv1.Topic_Sources:
		r := newRowReader(t, b.Sources, at, cursor, nil, putSources, b.SourcesLink)
		r.stops = append(r.stops, b.Want.Add(board.WantSources))
		return r, nil
	case *podwebv1.Topic_Consumers:
		r := newRowReader(t, b.Consumers, at, cursor, nil, putConsumers, b.ConsumersLink)
		r.stops = append(r.stops, b.Want.Add(board.WantConsumers))
		return r, nil
	case *podwebv1.Topic_Events:
		var match func(*podwebv1.EventRow) bool
		if key := topic.Events.GetPodKey(); key != "" {
			match = func(row *podwebv1.EventRow) bool { return row.GetPodKey() == key }
		}
		return newRowReader(t, b.Events, at, cursor, match, putEvents, b.EventsLink), nil
	case *podwebv1.Topic_Nodes:
		r := newRowReader(t, b.Nodes, at, cursor, nil, putNodes, b.Desired, b.ConsumersLink)
		r.stops = append(r.stops, b.Want.Add(board.WantNodes))
		return r, nil
	case *podwebv1.Topic_Logs:
		return s.logs(t, at, topic.Logs, cursor)
	case *podwebv1.Topic_Stats:
		return newStatsReader(t, b, at, topic.Stats, cursor), nil
	}
	return nil, refuse(connect.CodeInvalidArgument, "the subscription has no topic")
}

func (s *Service) pods(t *tab, at place, topic *podwebv1.PodsTopic, cursor string) (reader, error) {
	const most = 100
	keys := topic.GetNodeKeys()
	if len(keys) > most {
		return nil, refuse(connect.CodeInvalidArgument, "at most 100 nodes can be selected")
	}
	var match func(*podwebv1.PodRow) bool
	if len(keys) > 0 {
		selected := map[string]bool{}
		for _, key := range keys {
			selected[key] = true
		}
		match = func(row *podwebv1.PodRow) bool { return selected[row.GetNodeKey()] }
	}
	b := s.cfg.Board
	return newRowReader(t, b.Pods, at, cursor, match, putPods, b.Desired, b.Observed), nil
}

func (s *Service) logs(t *tab, at place, topic *podwebv1.LogsTopic, cursor string) (reader, error) {
	const most, usualTail, mostTail = 16, 200, 2000
	containers := topic.GetContainers()
	if len(containers) == 0 || len(containers) > most {
		return nil, refuse(connect.CodeInvalidArgument, "logs are of 1 to 16 containers")
	}
	r, lines := &linesReader{place: at}, tail(int(topic.GetTail()), usualTail, mostTail)
	for _, c := range containers {
		uid, ok := s.cfg.Board.UID(c.GetPodKey())
		if !ok {
			r.close()
			return nil, refuse(connect.CodeNotFound, "there is no such pod")
		}
		log, release, err := s.cfg.Upstream.OpenLog(upstream.LogName{UID: uid, Container: c.GetContainer(), Previous: c.GetPrevious()}, lines)
		if err != nil {
			r.close()
			code := connect.CodeFailedPrecondition
			if errors.Is(err, upstream.ErrTooManyLogs) {
				code = connect.CodeResourceExhausted
			}
			return nil, refuse(code, err.Error())
		}
		r.add(t, log, release)
	}
	r.begin(cursor, lines)
	return r, nil
}

func putPods(d *podwebv1.Delivery, rows []*podwebv1.PodRow, omitted int) {
	d.Items = &podwebv1.Delivery_Pods{Pods: &podwebv1.PodItems{Rows: rows, Omitted: int32(omitted)}} //nolint:gosec // The pods are bounded.
}

func putSources(d *podwebv1.Delivery, rows []*podwebv1.SourceRow, _ int) {
	d.Items = &podwebv1.Delivery_Sources{Sources: &podwebv1.SourceItems{Rows: rows}}
}

func putConsumers(d *podwebv1.Delivery, rows []*podwebv1.ConsumerRow, _ int) {
	d.Items = &podwebv1.Delivery_Consumers{Consumers: &podwebv1.ConsumerItems{Rows: rows}}
}

func putEvents(d *podwebv1.Delivery, rows []*podwebv1.EventRow, _ int) {
	d.Items = &podwebv1.Delivery_Events{Events: &podwebv1.EventItems{Rows: rows}}
}

func putNodes(d *podwebv1.Delivery, rows []*podwebv1.NodeRow, _ int) {
	d.Items = &podwebv1.Delivery_Nodes{Nodes: &podwebv1.NodeItems{Rows: rows}}
}
