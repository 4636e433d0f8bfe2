// Renders the templates of a Helm chart as `helm template` does, with what Helm itself is made of: Go's text/template, sprig, YAML.
// Only what our chart uses: include, toYaml, no dependencies, no files, no look-ups in a cluster.
//
//	chart CHART RELEASE [VALUES.yaml...] > manifests.yaml
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// As Helm reads values: every number is a float64.
func plain(v interface{}) interface{} {
	switch t := v.(type) {
	case map[string]interface{}:
		for k := range t {
			t[k] = plain(t[k])
		}
	case []interface{}:
		for i := range t {
			t[i] = plain(t[i])
		}
	case int:
		return float64(t)
	}
	return v
}

func load(path string) map[string]interface{} {
	out := map[string]interface{}{}
	text, err := os.ReadFile(path)
	check(err)
	check(yaml.Unmarshal(text, &out))
	return plain(out).(map[string]interface{})
}

func merge(into, from map[string]interface{}) {
	for k, v := range from {
		a, isMap := into[k].(map[string]interface{})
		b, also := v.(map[string]interface{})
		if isMap && also {
			merge(a, b)
		} else {
			into[k] = v
		}
	}
}

func toYaml(v interface{}) (string, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

func main() {
	chart, release := os.Args[1], os.Args[2]
	values := load(filepath.Join(chart, "values.yaml"))
	for _, path := range os.Args[3:] {
		merge(values, load(path))
	}
	about := load(filepath.Join(chart, "Chart.yaml"))
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(sprig.TxtFuncMap()).Funcs(template.FuncMap{
		"toYaml": toYaml,
		"include": func(name string, data interface{}) (string, error) {
			var out strings.Builder
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	})
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		_, err = root.New(filepath.Base(path)).Parse(string(text))
		check(err)
	}
	data := map[string]interface{}{
		"Values":  values,
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": map[string]interface{}{"Name": release, "Namespace": "default", "Service": "Helm"},
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, ".yaml") {
			continue
		}
		var out strings.Builder
		check(root.ExecuteTemplate(&out, filepath.Base(path), data))
		text := strings.ReplaceAll(out.String(), "<no value>", "")
		if strings.TrimSpace(text) != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", filepath.Base(path), strings.TrimSpace(text))
		}
	}
}
