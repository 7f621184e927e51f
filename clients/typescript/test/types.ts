/** What compiles and what does not: read by the compiler, never run. */
import { Client, type Answer, type Item, type operations, type Retry } from "kinbin-client";

interface Photo {
  year: number;
  tags?: string[];
}

export async function uses(client: Client): Promise<void> {
  const photos = client.collection<Photo>("photos");
  const answer: Answer<Photo> = await photos.query([1, 2], { k: 3 });
  const year: number | undefined = answer.results[0]?.payload?.year;
  const item: Item<Photo> | undefined = (await photos.get(["a"])).items[0];
  const loose: unknown = (await client.query([1])).results[0]?.payload?.anything;
  const retry: Retry = { attempts: 1 };
  const operation: keyof operations = "query";
  void [year, item, loose, retry, operation];

  // @ts-expect-error a payload of another type
  await photos.add([{ id: "a", vector: [1], payload: { year: "2020" } }]);
  // @ts-expect-error an item without a vector or an object
  await photos.add([{ id: "a" }]);
  // @ts-expect-error an option that there is not
  await photos.query([1], { kk: 3 });
  // @ts-expect-error a mode that there is not
  await photos.query([1], { mode: "fast" });
  // @ts-expect-error a string is no vector
  await photos.query("a");
  // @ts-expect-error both
  await photos.delete({ ids: [], filter: {} }, 3);
  // @ts-expect-error a patch of another type
  await photos.patchPayload([{ id: "a", payload: { year: "2020" } }]);
  await photos.patchPayload([{ id: "a", payload: { year: null } }]);
}
