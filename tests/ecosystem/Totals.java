// A Kafka Streams application with exactly_once_v2: it deals numbers to keys through a repartition topic, keeps a total of each key in a
// store with a changelog, and writes each number with the total that it led to.
//
// Arguments: the state directory, the topics to read and to write, the number of keys, and then configs of Streams as NAME=VALUE. It prints
// each state that it comes to. SIGTERM ends it, and after an error it ends with status 1.

import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class Totals {
    private static class Total extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            KeyValueStore<String, String> totals = context().getStateStore("totals");
            String before = totals.get(record.key());
            String[] words = (before == null ? "0,0" : before).split(",");
            String after = (Long.parseLong(words[0]) + 1) + "," + (Long.parseLong(words[1]) + Long.parseLong(record.value()));
            totals.put(record.key(), after);
            context().forward(record.withValue(record.value() + "," + after));
        }
    }

    public static void main(String[] words) {
        Properties config = new Properties();
        config.put(StreamsConfig.STATE_DIR_CONFIG, words[0]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        for (int i = 4; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        long keys = Long.parseLong(words[3]);
        var text = Serdes.String();
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("totals"), text, text));
        builder.stream(words[1], Consumed.with(text, text))
            .map((key, number) -> KeyValue.pair("" + Long.parseLong(number) % keys, number))
            .repartition(Repartitioned.with(text, text).withName("by-key"))
            .process(Total::new, "totals")
            .to(words[2], Produced.with(text, text));
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
