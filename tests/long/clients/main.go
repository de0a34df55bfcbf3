// What a program does with the client that openapi-generator makes for Go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	pilotis "example.com/pilotis/client"
)

func must[T any](value T, response *http.Response, err error) T {
	if err != nil {
		panic(err)
	}
	_ = response
	return value
}

func main() {
	settings := pilotis.NewConfiguration()
	settings.Servers = pilotis.ServerConfigurations{{URL: os.Getenv("SERVER")}}
	settings.AddDefaultHeader("X-Public-Key", os.Getenv("PUBLIC_KEY"))
	client, ctx, storage := pilotis.NewAPIClient(settings), context.Background(), os.Getenv("STORAGE")

	text := pilotis.STRING
	options := pilotis.NewColumnOptions(pilotis.NUMBER)
	columns := map[string]pilotis.ColumnDefinition{"name": {ColumnType: &text}, "rating": {ColumnOptions: options}}
	definition := pilotis.NewTableDefinition("cafes of Go", columns, pilotis.PUBLIC)
	table := must(client.TablesAndColumnsAPI.CreateTable(ctx).TableDefinition(*definition).Execute()).Id
	for _, rating := range []float64{4.5, 3} {
		row := pilotis.NewRowInput(map[string]interface{}{"name": fmt.Sprintf("cafe %v", rating), "rating": rating})
		must(client.TableDataAPI.CreateRow(ctx, table).RowInput(*row).Execute())
	}
	var rows int64 = must(client.TableDataAPI.ListRows(ctx, table).Limit(1).Execute()).TotalCount
	query, where := pilotis.NewQuery(), pilotis.NewWhere()
	where.AdditionalProperties = map[string]interface{}{"rating": map[string]interface{}{"$gte": 4}}
	query.SetWhere(*where)
	found := must(client.TableDataAPI.QueryRows(ctx, table).Query(*query).Execute()).Data

	upload := pilotis.NewUploadInput("cat.txt", 4, "text/plain")
	permit := must(client.FileStorageAPI.CreateUpload(ctx, storage).UploadInput(*upload).Execute())
	request, _ := http.NewRequest(permit.Method, permit.UploadUrl, strings.NewReader("meow"))
	for name, value := range permit.Headers {
		request.Header.Set(name, value)
	}
	if sent, err := http.DefaultClient.Do(request); err != nil || sent.StatusCode != 200 {
		panic(fmt.Sprint(sent, err))
	}
	complete := pilotis.NewCompleteUpload(permit.FileId)
	file := must(client.FileStorageAPI.CompleteUpload(ctx, storage).CompleteUpload(*complete).Execute())

	up, in := pilotis.NewSignUp("go", "correct horse battery"), pilotis.NewSignIn("go", "correct horse battery")
	member := must(client.AppMemberAuthenticationAPI.SignUpMember(ctx).SignUp(*up).Execute())
	again := must(client.AppMemberAuthenticationAPI.SignInMember(ctx).SignIn(*in).Execute())
	output, _ := json.Marshal([]interface{}{found[0].Data["name"], rows, file.Size, member.MemberId == again.MemberId})
	fmt.Println(string(output))
}
