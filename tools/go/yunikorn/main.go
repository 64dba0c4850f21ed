// Yunikorn runs yunikorn-core in this process, without Kubernetes: nodes and asks are registered over its own scheduler
// interface, and it says how many allocations a second it makes.
//
// It reads one JSON object from standard input,
//
//	{"nodes": [[milli-CPU, MiB, milli-cards], ...], "asks": [[milli-CPU, MiB, milli-cards], ...], "queues": 4}
//
// and prints one: {"version", "nodes", "asks", "allocated", "seconds", "per_second"}.  The clock runs from the moment
// the asks are handed over until 95 of 100 allocations have been reported: asks that fit nowhere keep it searching all
// nodes, so the last few come slowly, and that is not counted against it.  Nodes are sorted for bin packing, as suits
// cards.  A queue gets every fourth ask (with 4 queues).
// Cards are one quantity of a node ("gpu-milli"): yunikorn-core knows no single cards, so a fraction needs no card with
// enough left, and whole cards need not be idle ones.  A gang comes as so many asks.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const (
	rmID     = "rm:millpond"
	core     = "github.com/apache/yunikorn-core"
	patience = 10 * time.Second // without any allocation: the rest fits nowhere
	counted  = 95               // per cent of the allocations
)

type input struct {
	Nodes  [][3]int64 `json:"nodes"`
	Asks   [][3]int64 `json:"asks"`
	Queues int        `json:"queues"`
}

type output struct {
	Version   string  `json:"version"`
	Nodes     int     `json:"nodes"`
	Asks      int     `json:"asks"`
	Allocated int64   `json:"allocated"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// callback counts what the core reports, and when.
type callback struct {
	apps, nodes, allocated, last atomic.Int64

	mutex   sync.Mutex
	reports []report
}

// report says how many allocations there were by then.
type report struct {
	at    time.Time
	total int64
}

func (c *callback) UpdateAllocation(response *si.AllocationResponse) error {
	if len(response.New) == 0 {
		return nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	c.reports = append(c.reports, report{now, c.allocated.Add(int64(len(response.New)))})
	c.last.Store(now.UnixNano())
	return nil
}

// reached is the first report of at least so many allocations.
func (c *callback) reached(total int64) report {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, one := range c.reports {
		if one.total >= total {
			return one
		}
	}
	return report{}
}

func (c *callback) UpdateApplication(response *si.ApplicationResponse) error {
	c.apps.Add(int64(len(response.Accepted)))
	return nil
}

func (c *callback) UpdateNode(response *si.NodeResponse) error {
	c.nodes.Add(int64(len(response.Accepted)))
	return nil
}

func (c *callback) Predicates(*si.PredicatesArgs) error { return nil }

func (c *callback) PreemptionPredicates(args *si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return &si.PreemptionPredicatesResponse{Success: true, Index: args.StartIndex}
}

func (c *callback) SendEvent([]*si.EventRecord) {}

func (c *callback) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}

func main() {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fail("the input is not the JSON that is expected: %v", err)
	}
	result, err := run(given)
	if err != nil {
		fail("%v", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail("%v", err)
	}
}

func run(given input) (output, error) {
	log.UpdateLoggingConfig(map[string]string{"log.level": "ERROR"})
	services := entrypoint.StartAllServicesWithParams(false, false)
	defer services.StopAll()
	proxy := services.RMProxy
	seen := &callback{}
	_, err := proxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID:        rmID,
		PolicyGroup: "policygroup",
		Version:     "1",
		BuildInfo:   map[string]string{"for": "millpond"},
		Config:      config(given.Queues),
		ExtraConfig: map[string]string{"log.level": "ERROR"},
	}, seen)
	if err != nil {
		return output{}, fmt.Errorf("registration: %w", err)
	}
	if err := proxy.UpdateApplication(&si.ApplicationRequest{RmID: rmID, New: applications(given.Queues)}); err != nil {
		return output{}, fmt.Errorf("applications: %w", err)
	}
	if err := proxy.UpdateNode(&si.NodeRequest{RmID: rmID, Nodes: nodes(given.Nodes)}); err != nil {
		return output{}, fmt.Errorf("nodes: %w", err)
	}
	ready := func() bool {
		return seen.nodes.Load() >= int64(len(given.Nodes)) && seen.apps.Load() >= int64(given.Queues)
	}
	if !wait(ready, 60*time.Second) {
		return output{}, fmt.Errorf("only %d nodes and %d applications were accepted", seen.nodes.Load(), seen.apps.Load())
	}
	asks := asks(given)
	begun := time.Now()
	seen.last.Store(begun.UnixNano())
	if err := proxy.UpdateAllocation(&si.AllocationRequest{RmID: rmID, Allocations: asks}); err != nil {
		return output{}, fmt.Errorf("asks: %w", err)
	}
	wait(func() bool {
		idle := time.Since(time.Unix(0, seen.last.Load()))
		return seen.allocated.Load() >= int64(len(asks)) || idle > patience
	}, time.Hour)
	got := seen.allocated.Load()
	if got == 0 {
		return output{}, fmt.Errorf("none of %d asks was allocated", len(asks))
	}
	mark := seen.reached((got*counted + 99) / 100)
	seconds := mark.at.Sub(begun).Seconds()
	return output{version(), len(given.Nodes), len(asks), got, seconds, float64(mark.total) / seconds}, nil
}

func config(queues int) string {
	var text strings.Builder
	text.WriteString("partitions:\n  - name: default\n    nodesortpolicy:\n      type: binpacking\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n")
	for i := range queues {
		fmt.Fprintf(&text, "          - name: q%d\n", i)
	}
	return text.String()
}

func applications(queues int) []*si.AddApplicationRequest {
	found := make([]*si.AddApplicationRequest, queues)
	for i := range found {
		found[i] = &si.AddApplicationRequest{
			ApplicationID: fmt.Sprintf("app-%d", i),
			QueueName:     fmt.Sprintf("root.q%d", i),
			Ugi:           &si.UserGroupInformation{User: "user", Groups: []string{"group"}},
		}
	}
	return found
}

func nodes(given [][3]int64) []*si.NodeInfo {
	found := make([]*si.NodeInfo, len(given))
	for i, node := range given {
		found[i] = &si.NodeInfo{
			NodeID:              fmt.Sprintf("node-%d", i),
			Attributes:          map[string]string{},
			SchedulableResource: resource(node),
			Action:              si.NodeInfo_CREATE,
		}
	}
	return found
}

func asks(given input) []*si.Allocation {
	found := make([]*si.Allocation, len(given.Asks))
	for i, ask := range given.Asks {
		found[i] = &si.Allocation{
			AllocationKey:    fmt.Sprintf("ask-%d", i),
			ApplicationID:    fmt.Sprintf("app-%d", i%given.Queues),
			ResourcePerAlloc: resource(ask),
		}
	}
	return found
}

func resource(amounts [3]int64) *si.Resource {
	values := map[string]*si.Quantity{"vcore": {Value: amounts[0]}, "memory": {Value: amounts[1]}}
	if amounts[2] > 0 {
		values["gpu-milli"] = &si.Quantity{Value: amounts[2]}
	}
	return &si.Resource{Resources: values}
}

func wait(done func() bool, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return true
		}
	}
	return done()
}

// version is the release of yunikorn-core that this binary was built with.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == core {
				return module.Version
			}
		}
	}
	return ""
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "yunikorn: "+format+"\n", values...)
	os.Exit(1)
}
